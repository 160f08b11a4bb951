// Package responses carries out runs over the gateway's Responses API: one POST
// per turn, answered by a stream of server-sent events.
//
// The edge owns the conversation: every turn brings its whole history and is never
// chained to a stored response, because chaining doubles the history on several
// gateway releases. With the gateway option store on, a stream that breaks is
// recovered from the stored response, which is deleted when it is done with; with
// store off (the default) a broken stream ends the run with the text so far.
//
// The Responses API has no stop: to stop, the stream is closed, and the gateway
// may or may not go on working unseen. An aborted run therefore reports that the
// upstream has stopped only if it was never called or had ended by itself.
package responses

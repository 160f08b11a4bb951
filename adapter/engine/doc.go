// Package engine runs chat sessions: it accepts messages, queues them, drives one
// run at a time per session through an Executor, logs every event before it is
// delivered, and lets any number of sockets follow a session from any point.
//
// A session that has a run or a watcher on this node is owned by one actor: a
// bounded mailbox whose functions are executed one after the other. Sessions
// without either hold no memory and no goroutine here. The engine keeps no truth:
// the store does (package store), and every decision that matters is taken inside
// one of its operations.
package engine

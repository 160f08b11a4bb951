// Package socketio is a Socket.IO protocol 5 server over package engineio:
// namespaces, events, acknowledgements, binary packets and rooms. It is a
// general server and knows nothing of any application.
//
// The caller admits every request (identity, Origin) and hands it to
// [Server.Serve]. A [Handler] serves one namespace:
//
//	Connect        own goroutine, bounded by ConnectTimeout; may refuse
//	Connected      after the CONNECT reply was queued, before any event
//	Event          one at a time for each socket, never on the reading goroutine
//	Disconnected   once for each Connected
//
// All four run on one goroutine for each socket, which exists only while there
// is something to do. A Connect that returns no error is always followed by
// Connected and Disconnected, even if the client is gone meanwhile.
//
// Sending never waits for a client: it queues, or fails with [ErrBufferFull]
// when the client does not read. [Socket.OnDrain] tells when to go on. A
// client that sends faster than its events are handled, or faster than
// Options.EventRate, is slowed down by not reading from it.
package socketio

// Package engine runs chat sessions: it accepts messages, queues them, drives one
// run at a time per session through an Executor, logs every event before it is
// delivered, and lets any number of sockets follow a session from any point.
//
// A session that has a run or a watcher on this node is owned by one actor: a
// bounded mailbox whose functions are executed one after the other. Sessions
// without either hold no memory and no goroutine here. The engine keeps no truth:
// the store does (package store), and every decision that matters is taken inside
// one of its operations.
//
// A store that several nodes share can be away for a while and lose what it has
// acknowledged (its Generation is above 0). Then batches wait in an outbox (outbox.go)
// and are shown ahead of the log (ahead.go), an owner whose tenure is in doubt keeps
// its hands still (fence.go), nothing begins while a store settles that may have lost
// writes (settle.go), owners keep what is needed to bring their runs back (keep.go,
// reinstate.go), and a node that leaves hands its runs over (detach.go). None of this
// costs anything where the store loses nothing.
package engine

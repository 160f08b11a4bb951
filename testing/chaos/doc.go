// Package chaos drives several edge nodes on one Redis with tens of clients while
// nodes and Redis are killed, paused, drained and restarted, and then proves the
// invariants of the design from what the clients and the scripted gateway wrote
// down.
//
// A run of the test consists of rounds. In a round clients of several users send,
// queue, abort, cancel, resume, lose their connections and move between nodes by
// a seeded plan while faults happen by another; then everything is healed, nothing
// new is sent, and when all is quiet the [Check] judges the round's [Evidence].
// Each answer of the gateway is computed from the message alone, so the checker
// knows what every watcher must have seen.
package chaos

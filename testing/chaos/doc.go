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
//
// The environment sets how long and what:
//
//	HERMES_EDGE_CHAOS_DURATION  of all rounds: 100s if unset, hours by hand ("3h")
//	HERMES_EDGE_CHAOS_SEED      of the first round: the clock if unset, printed always
//	HERMES_EDGE_CHAOS_FAULTS    kill, pause, drain (nodes), redispause, rediskill,
//	                            redisstop, separated by commas; all if unset
//	HERMES_EDGE_CHAOS_DIR       where logs of nodes and timelines of sessions go
//
// A failure prints the plan, what is violated, and the end of the timeline of one
// session; the logs and the other timelines are kept.
package chaos

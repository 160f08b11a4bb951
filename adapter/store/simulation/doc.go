// Package simulation holds a deterministic simulation of several nodes over the
// store contract (contract section 12); it has tests only.
//
// Nodes are step machines that follow the flows 5.1 to 5.7 and 5.11 on virtual
// time. Their calls are lost, delayed, doubled or answered in vain; nodes are
// killed, paused, cut off and drained. One seed is one schedule, so that a
// failure is repeated by its seed. A second test takes the rules of the contract
// away one by one and demands that the simulation notices.
//
// Left for the Redis store, with which they come: settling, Reinstate, and a
// store that falls back.
package simulation

// Package simulation holds a deterministic simulation of several nodes over the
// store contract (contract section 12); it has tests only.
//
// Nodes are step machines that follow the flows 5.1 to 5.7, 5.11 and 9.4 on virtual
// time. Their calls are lost, delayed, doubled or answered in vain; nodes are
// killed, paused, cut off and drained; the store falls back and loses what it has
// acknowledged last. Contract 9.5 says what may be lost then; all else is judged as
// if nothing had happened. One seed is one schedule, so that a failure is repeated
// by its seed. A second test takes the rules of the contract away one by one and
// demands that the simulation notices.
package simulation

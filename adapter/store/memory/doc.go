// Package memory is the store contract as a state machine in memory.
//
// Each operation is a pure step: it reads one session, checks everything, and
// describes its effect as one change. The change is then committed: persisted
// first if a [Journal] is set and the change has to be durable, then applied to
// memory, then announced. So the operations hold no persistence code, and memory
// never shows what a journal has refused.
//
// Operations of one session take turns; those of different sessions never wait
// for each other. Readers do not take turns: they go on while a commit is under
// way, and see the state before it.
//
// The clock and the source of randomness are injected, no goroutine is started,
// and one Store may serve several nodes of a test, which makes the package the
// base of the embedded store and of the deterministic simulation alike.
package memory

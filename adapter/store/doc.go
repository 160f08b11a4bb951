// Package store is the contract between the run engine and whatever keeps its
// state: an embedded file on one node, or Redis for many.
//
// A store holds, per chat session: a root record that decides everything, an
// append-only event log (the delivery order on every node), sealed transcript
// rows, a queue of accepted user messages, a ledger of what became of each
// message, and a lease that says whether the node that runs the session's
// active run is alive.
//
// Three rules carry the design:
//
//   - Every state change and the log entries that announce it are written in one
//     atomic step. A log entry is never seen without its state, or the reverse.
//   - Permission to write run events is equality of a token, checked inside the
//     write. The lease only says whether the holder is alive.
//   - Every operation may be sent twice and may be executed late. It is bound to
//     a run, to a token and sequence number, or to an attempt, or it carries a
//     time after which it must not be executed.
//
// Payloads are opaque bytes to a store: it knows indexed fields only. Package
// storetest is the conformance suite that every implementation passes.
package store

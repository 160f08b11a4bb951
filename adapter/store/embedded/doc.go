// Package embedded is the store of a single node: one bbolt file, opened by one
// process (contract section 7).
//
// The state machine is package memory; this package is its journal. What a user
// must be able to rely on (an accepted message, an ending, the phase that decides
// whether a run may be run again) is in the file before a call returns; rows
// sealed in mid-run, the checkpoint and upstream cursors follow within a second;
// the event log, leases and connection records live in memory only.
//
// All writing is done by one goroutine, in the order of the calls. Commits that
// arrive while it is writing share the next transaction, so that many sessions
// share one fsync and a lone commit never waits for company.
package embedded

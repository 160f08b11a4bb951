package store

import (
	"context"
	"time"
)

// Recovery brings back what a store lost although it had acknowledged it
// (contract 9.4). A store that loses nothing behind its owner's back has
// generation 0 for ever and answers Ended.
type Recovery interface {
	// Generation grows whenever acknowledged writes may have been lost: a server
	// process has been replaced by another. It is read before any command reaches
	// the new process, and never blocks.
	Generation() uint64
	// Reinstate makes a run that its owner carries out, or has just ended, the
	// active one again: OK, Ended (the ledger shows it ended or cancelled, or as
	// another attempt; or the session was deleted), Busy (another run is active) or
	// Fenced (this run is in other, later hands). Repeated under the same token it
	// answers OK.
	Reinstate(ctx context.Context, a ReinstateArgs) (ReinstateResult, error)
	// Bury records a run that cannot be reinstated as failed, with its rows: OK,
	// also if the ledger shows it ended already, or Forbidden.
	Bury(ctx context.Context, a BuryArgs) (Code, error)
}

// ReinstateArgs say all that an owner knows of a run.
type ReinstateArgs struct {
	SID    string
	Guard  Guard
	Create Attrs // of a session that has to be made anew
	Item   Item
	// Record: Phase, Executor, Attempt, Abort, WireID, Upstream, Token, Fence and
	// Node count.
	Record RunRecord
	TTL    time.Duration
	Seq    int64    // last append sequence that was acknowledged
	Rows   []NewRow // all rows of the run so far, the user row first
	// Checkpoint is the fold of the run's events that are logged.
	Checkpoint []byte
	Stamp      string
}

// ReinstateResult answers Reinstate. With OK the log holds one gap entry and a
// fresh chain behind it: every reader starts from a snapshot.
type ReinstateResult struct {
	Code        Code
	Incarnation string
	Last        Position
	Rows        []int64 // OK: ids of the run's rows, the user row first
	Token       string  // Busy: who holds the other run
}

// BuryArgs say what is kept of a lost run.
type BuryArgs struct {
	SID    string
	Guard  Guard
	Create Attrs
	Item   Item
	Rows   []NewRow // all rows of the run, the user row first
}

// Slots bound the live upstream work of a gateway over all nodes (contract 4.2).
// They are a brake, not a proof.
type Slots interface {
	// TakeSlot asks for a place among limit, or asks again: OK, or Waiting with the
	// place in the order of first asking. Who does not ask again, or renew a slot
	// by TakeSlot, within ttl falls out.
	TakeSlot(ctx context.Context, gateway, run string, limit int, ttl time.Duration) (SlotResult, error)
	// FreeSlot gives a slot or a place in the order back.
	FreeSlot(ctx context.Context, gateway, run string) error
}

// SlotResult answers TakeSlot.
type SlotResult struct {
	Code  Code // OK or Waiting
	Place int  // Waiting: from 1
}

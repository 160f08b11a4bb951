package memory

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Journal stores sessions durably for a Store. Its methods are safe for
// concurrent use.
type Journal interface {
	// Load reads a session, nil if there is none. Rows are not part of it.
	Load(ctx context.Context, sid string) (*Image, error)
	// Root reads the root of a session alone, nil if there is none.
	Root(ctx context.Context, sid string) (*Root, error)
	// Rows reads at most limit rows and maxBytes bytes with before > id, in
	// ascending order, and whether there are older ones. before is never 0.
	Rows(ctx context.Context, sid string, before int64, limit, maxBytes int) ([]store.Row, bool, error)
	// List reads a page of the ids of sessions, latest activity first.
	List(ctx context.Context, q store.ListQuery) (sids []string, next string, err error)
	// Commit stores deltas in the order of the calls and calls done once with the
	// outcome, from another goroutine or before it returns. patient asks for
	// repeated tries before it gives up.
	Commit(d *Delta, patient bool, done func(error))
}

// Image is a session as a journal has it.
type Image struct {
	Root       *Root
	Queue      []QueuedItem // in order
	Ledger     map[string]*LedgerRecord
	Active     *store.Item
	Checkpoint []byte
	Log        []store.Entry // of the active run, behind the checkpoint
}

// QueuedItem is a waiting item with its place in the order.
type QueuedItem struct {
	Seq  int64
	Item *store.Item
}

// Delta is what a journal has to learn about one session, to be stored in one
// step. Every part of it may be stored twice.
type Delta struct {
	SID  string
	Root *Root // the root afterwards, nil: as it was stored
	Drop bool  // everything of the session goes
	Full bool  // queue, ledger, active item and checkpoint are complete: what is not here goes
	Wipe bool  // rows stored so far go

	Rows       []store.Row
	Push       []QueuedItem
	Pop        []int64
	Ledger     map[string]*LedgerRecord // nil record: removed
	Active     *store.Item
	ActiveSet  bool
	Checkpoint []byte
	FoldSet    bool // Checkpoint replaces the former one and the log stored behind that
	// Log is what the log of a busy session has got since the last delta.
	Log []store.Entry

	session  *session
	revision uint64
	logged   int64
}

// delta describes a change together with all that the journal is behind with.
// The caller holds the turn.
func (ch *change) delta() *Delta {
	s := ch.s
	s.mu.RLock() // rows and dirty change with Stored, without a turn
	defer s.mu.RUnlock()
	root := ch.next.Root
	if !root.busy() {
		root.IdleSince = ch.now
	}
	d := &Delta{
		SID: s.sid, Root: &root, Drop: ch.drop, Wipe: ch.wipe || s.dirty.wipe, session: s,
		Active: ch.active, ActiveSet: ch.active != s.active,
		Ledger: make(map[string]*LedgerRecord, len(ch.edits)),
	}
	if !ch.wipe {
		d.Rows = append(d.Rows, s.rows...)
	}
	d.Rows = append(d.Rows, ch.rows...)
	d.Push, d.Pop = diff(s.queue, ch.queue)
	for _, e := range ch.edits {
		d.Ledger[e.key] = e.record
	}
	switch {
	case ch.folded:
		d.Checkpoint, d.FoldSet = ch.fold, true
	case s.dirty.checkpoint:
		d.Checkpoint, d.FoldSet = s.checkpoint, true
	}
	if s.dirty.full {
		d.complete(s, ch.queue)
	}
	d.addLog(s, ch.next.Covered)
	return d
}

// addLog adds the entries that the journal does not have. Those of the change
// under way follow with the next delta: a checkpoint or a run begun by it covers
// all there are.
func (d *Delta) addLog(s *session, covered int64) {
	from := s.logged
	if d.FoldSet {
		from = covered
	}
	d.logged = max(from, s.Head.Offset)
	if s.Run != "" {
		d.Log = entriesAfter(s.log, from)
	}
}

// complete turns d into a full image.
func (d *Delta) complete(s *session, queue []queued) {
	d.Full, d.ActiveSet, d.Pop = true, true, nil
	d.Push = nil
	for _, q := range queue {
		d.Push = append(d.Push, QueuedItem{q.seq, q.item})
	}
	for key, r := range s.ledger.records {
		if _, edited := d.Ledger[key]; !edited {
			d.Ledger[key] = r
		}
	}
	if !d.FoldSet {
		d.Checkpoint, d.FoldSet = s.checkpoint, true
	}
}

func diff(old, now []queued) (push []QueuedItem, pop []int64) {
	kept := make(map[int64]bool, len(now))
	last := int64(0)
	if len(old) > 0 {
		last = old[len(old)-1].seq
	}
	for _, q := range now {
		kept[q.seq] = true
		if q.seq > last {
			push = append(push, QueuedItem{q.seq, q.item})
		}
	}
	for _, q := range old {
		if !kept[q.seq] {
			pop = append(pop, q.seq)
		}
	}
	return push, pop
}

// Pending returns what the journal is behind with since about age, at most limit
// sessions, for a background transaction. Sessions come at moments of their own
// between half of age and age, so that they do not come all at once. The deltas go
// back to Stored once they are stored, and no Commit may be stored in between.
func (st *Store) Pending(limit int, age time.Duration) []*Delta {
	now := st.Now()
	st.mu.RLock()
	behind := make([]*session, 0, min(len(st.behind), limit))
	for s := range st.behind {
		if len(behind) == limit {
			break
		}
		if s.due(now, age) {
			behind = append(behind, s)
		}
	}
	st.mu.RUnlock()
	deltas := make([]*Delta, 0, len(behind))
	for _, s := range behind {
		if d := s.pendingDelta(); d != nil {
			deltas = append(deltas, d)
		}
	}
	return deltas
}

func (s *session) due(now int64, age time.Duration) bool {
	half := age.Milliseconds() / 2
	s.mu.RLock()
	defer s.mu.RUnlock()
	return now-s.dirty.since >= half+half*int64(s.phase)/256
}

func (s *session) pendingDelta() *Delta {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.dirty.any() {
		return nil
	}
	d := &Delta{SID: s.sid, session: s, revision: s.dirty.revision, Wipe: s.dirty.wipe, Rows: append([]store.Row(nil), s.rows...)}
	if s.dirty.root || s.dirty.full {
		root := s.Root
		d.Root = &root
	}
	if s.dirty.checkpoint {
		d.Checkpoint, d.FoldSet = s.checkpoint, true
	}
	if s.dirty.full {
		d.Ledger, d.Active = make(map[string]*LedgerRecord, len(s.ledger.records)), s.active
		d.complete(s, s.queue)
	}
	d.addLog(s, s.Covered)
	return d
}

// Stored tells that deltas of Pending are stored.
func (st *Store) Stored(deltas []*Delta) {
	for _, d := range deltas {
		s := d.session
		s.mu.Lock()
		if n := len(d.Rows); n > 0 {
			s.dropRows(d.Rows[n-1].ID)
		}
		if s.dirty.revision == d.revision {
			s.dirty.checkpoint, s.dirty.root = false, false
		} else {
			s.dirty.since = st.Now()
		}
		if d.Full {
			s.dirty.full, s.dirty.wipe = false, false
		}
		s.dirty.stored = max(s.dirty.stored, d.revision)
		s.logged = max(s.logged, d.logged)
		clean := !s.dirty.any()
		s.mu.Unlock()
		if clean {
			st.caughtUp(s)
		}
	}
}

// dropRows forgets rows that the journal has.
func (s *session) dropRows(upTo int64) {
	i := 0
	for i < len(s.rows) && s.rows[i].ID <= upTo {
		i++
	}
	if i == len(s.rows) {
		s.rows = nil
		return
	}
	s.rows = s.rows[i:]
}

func (st *Store) fellBehind(s *session) {
	st.mu.Lock()
	st.behind[s] = struct{}{}
	st.mu.Unlock()
}

func (st *Store) caughtUp(s *session) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.dirty.any() {
		delete(st.behind, s)
	}
}

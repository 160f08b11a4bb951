package memory

import (
	"context"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// purgedLog is how long the last entries of a deleted session can be read.
const purgedLog = 60_000

func loadLedger(records map[string]*LedgerRecord) ledger {
	l := ledger{records: records}
	for key, r := range records {
		l.order = append(l.order, ordered{r.Seq, key})
	}
	slices.SortFunc(l.order, func(a, b ordered) int { return int(a.seq - b.seq) })
	return l
}

// expire forgets what has run out: a tombstone, the log of an idle session. The
// caller holds the turn.
func (st *Store) expire(s *session, now int64) {
	if s.busy() {
		return
	}
	logEnd := s.IdleSince + store.IdleLogTTL.Milliseconds()
	if s.Tombstone > 0 {
		logEnd = s.Tombstone - store.TombstoneTTL.Milliseconds() + purgedLog
	}
	overdue := s.Tombstone > 0 && now >= s.Tombstone
	if !overdue && (len(s.log) == 0 || now < logEnd) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
	if !overdue {
		return
	}
	// The journal may still have the old ledger, so that whatever comes next has
	// to be stored in full.
	s.state = state{}
	s.Head = store.Origin
	s.ledger = ledger{}
	s.dirty = pending{full: st.opts.Journal != nil, wipe: st.opts.Journal != nil}
}

// Evict takes idle sessions out of memory that have not been used since the
// given time, have no log to be read, and of which the journal has everything.
func (st *Store) Evict(ctx context.Context, unusedSince int64) {
	st.mu.RLock()
	all := make([]*session, 0, len(st.sessions))
	for _, s := range st.sessions {
		all = append(all, s)
	}
	st.mu.RUnlock()
	for _, s := range all {
		if ctx.Err() != nil {
			return
		}
		select {
		case s.turn <- struct{}{}:
		default:
			continue // in use
		}
		if !s.gone {
			st.expire(s, st.Now())
			if s.used < unusedSince && st.opts.Journal != nil {
				st.forget(s, func() bool { return !s.busy() && len(s.log) == 0 })
			}
		}
		st.release(s)
	}
}

// Retire removes a session for good if it is idle and was last active before
// the given time, or is a tombstone that has run out.
func (st *Store) Retire(ctx context.Context, sid string, activeBefore int64) error {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return err
	}
	ch := s.change(st, now, "")
	forgotten := s.Incarnation == "" && len(s.ledger.records) == 0
	if forgotten || (s.exists() && !s.busy() && s.Updated < activeBefore) {
		ch.level, ch.drop, ch.wipe = durable, true, true
		ch.next = state{}
		ch.next.Head = store.Origin
		ch.hint.Deleted = s.exists()
	}
	return st.commit(ctx, ch)
}

// Loaded is the number of sessions in memory.
func (st *Store) Loaded() int {
	st.mu.RLock()
	defer st.mu.RUnlock()
	return len(st.sessions)
}

package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Generation implements store.Recovery: 0 for ever unless the store may fall back.
func (st *Store) Generation() uint64 { return st.generation.Load() }

// Reinstate implements store.Recovery. A store that loses nothing answers Ended.
func (st *Store) Reinstate(ctx context.Context, a store.ReinstateArgs) (store.ReinstateResult, error) {
	if !st.opts.FallsBack {
		return store.ReinstateResult{Code: store.Ended}, nil
	}
	s, now, err := st.take(ctx, a.SID)
	if err != nil {
		return store.ReinstateResult{}, err
	}
	ch := s.change(st, now, a.Stamp)
	res := reinstate(ch, &a)
	if err := st.commit(ctx, ch); err != nil {
		return store.ReinstateResult{}, err
	}
	return res, nil
}

func reinstate(ch *change, a *store.ReinstateArgs) store.ReinstateResult {
	s := ch.s
	if c := reinstatable(ch, a); c != "" {
		res := store.ReinstateResult{Code: c, Incarnation: s.Incarnation, Last: s.Head}
		if c == store.Busy {
			res.Token = s.token
		}
		return res
	}
	rec := s.ledger.item(a.Item.QID)
	mine := rec != nil && rec.Run == a.Item.Run
	active := s.Run == a.Item.Run
	if active && s.token == a.Record.Token && s.seq >= a.Seq {
		return store.ReinstateResult{
			Code: store.OK, Incarnation: s.Incarnation, Last: s.Head, Rows: s.rowsOf(a.Item.Run, s.UserRow),
		}
	}
	ch.level = durable
	if !s.exists() {
		ch.create(a.Guard, a.Create)
	}
	if i := ch.find(a.Item.QID); i >= 0 {
		ch.remove(i)
	}
	first := int64(0)
	switch {
	case active:
		first = s.UserRow
	case mine:
		first = rec.Row
	}
	ids := ch.missingRows(&a.Item, a.Rows, first)
	ch.restore(a, ids, active)
	now := ch.next.Head
	ch.enter(a.Item.QID, LedgerRecord{
		State: store.StateActive, Run: a.Item.Run, Digest: a.Item.Digest, Before: now, Last: now, Row: firstOf(ids),
	})
	return store.ReinstateResult{Code: store.OK, Incarnation: ch.next.Incarnation, Last: now, Rows: ids}
}

// reinstatable refuses what must not be made active again: Ended, Busy, Fenced
// or "".
func reinstatable(ch *change, a *store.ReinstateArgs) store.Code {
	s := ch.s
	rec := s.ledger.item(a.Item.QID)
	mine := rec != nil && rec.Run == a.Item.Run
	active := s.Run == a.Item.Run
	switch {
	case s.Tombstone > 0 && s.Incarnation != "", s.forbids(a.Guard):
		return store.Ended
	case s.Deleting && !active, s.ledger.get(attemptKey(a.Item.Run)) != nil:
		return store.Ended
	case rec != nil && rec.State.Ended(), rec != nil && rec.State == store.StateActive && !mine:
		return store.Ended
	case s.Run != "" && !active:
		return store.Busy
	case active && s.token != a.Record.Token && (s.alive(ch.now, ch.st.opts.SingleProcess) || s.Fence >= a.Record.Fence):
		return store.Fenced
	}
	return ""
}

// restore makes the run the active one, behind a break of the log's chain: the
// log may have held other entries at these offsets, so no reader goes on from
// what it has.
func (ch *change) restore(a *store.ReinstateArgs, rows []int64, active bool) {
	n, r, it := &ch.next, &a.Record, a.Item
	n.Run, n.QID, n.Executor, n.Phase = it.Run, it.QID, r.Executor, r.Phase
	n.Attempt, n.WireID, n.Upstream = r.Attempt, r.WireID, r.Upstream
	n.Abort = r.Abort || active && n.Abort
	n.RunRows, n.UserRow, n.Began, n.Updated = int64(len(rows)), firstOf(rows), ch.now, ch.now
	n.BegunIn = ch.st.Generation()
	n.Dequeued, n.QueueOwed = false, false
	n.token, n.node, n.lease = r.Token, r.Node, ch.now+a.TTL.Milliseconds()
	n.seq, n.last, n.taken = a.Seq, appended{}, ""
	n.Fence = max(n.Fence, r.Fence)
	ch.active = &it
	if ch.stamp == "" {
		ch.stamp = ch.st.random(6)
	}
	n.Head.Stamp = ch.stamp + "x"
	ch.entry(store.NewEntry{}, store.KindGap, it.Run)
	n.Covered = n.Head.Offset
	ch.fold, ch.folded = a.Checkpoint, true
}

// Bury implements store.Recovery. A store that loses nothing answers Ended.
func (st *Store) Bury(ctx context.Context, a store.BuryArgs) (store.Code, error) {
	if !st.opts.FallsBack {
		return store.Ended, nil
	}
	return st.code(ctx, a.SID, func(ch *change) store.Code { return ch.bury(&a) })
}

func (ch *change) bury(a *store.BuryArgs) store.Code {
	s := ch.s
	rec := s.ledger.item(a.Item.QID)
	switch {
	case s.forbids(a.Guard):
		return store.Forbidden
	case rec != nil && rec.State != store.StateQueued, s.Deleting, s.Tombstone > 0 && s.Incarnation != "":
		return store.OK
	}
	ch.level = durable
	if !s.exists() {
		ch.create(a.Guard, a.Create)
	}
	if i := ch.find(a.Item.QID); i >= 0 {
		ch.remove(i)
		ch.queueEvent()
	}
	ids := ch.missingRows(&a.Item, a.Rows, 0)
	ch.next.Updated = ch.now
	now := ch.next.Head
	ch.enter(a.Item.QID, LedgerRecord{
		State: store.StateFailed, Run: a.Item.Run, Digest: a.Item.Digest, Before: now, Last: now, Row: firstOf(ids), Ack: true,
	})
	return store.OK
}

// enter writes the record of an item, whether there is one or not.
func (ch *change) enter(qid string, r LedgerRecord) {
	if ch.s.ledger.item(qid) == nil {
		ch.record(itemKey(qid), r)
		return
	}
	ch.mark(qid, func(old *LedgerRecord) {
		r.Seq = old.Seq
		*old = r
	})
}

// missingRows seals those of a run's rows that the transcript lacks, and returns
// the ids of all of them. Its rows stand behind row first, if that is not 0.
func (ch *change) missingRows(it *store.Item, rows []store.NewRow, first int64) []int64 {
	ids := ch.s.rowsOf(it.Run, first)
	for i := len(ids); i < len(rows); i++ {
		qid := ""
		if i == 0 {
			qid = it.QID
		}
		ids = append(ids, ch.row(rows[i], it.Run, qid).ID)
	}
	return ids
}

// rowsOf returns the ids of a run's rows from row first on, none if that is 0.
func (s *session) rowsOf(run string, first int64) (ids []int64) {
	if first == 0 {
		return nil
	}
	for i := range s.rows {
		if r := &s.rows[i]; r.ID >= first && r.Run == run {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func firstOf(ids []int64) int64 {
	if len(ids) == 0 {
		return 0
	}
	return ids[0]
}

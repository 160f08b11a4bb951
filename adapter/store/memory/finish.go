package memory

import (
	"context"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Finish implements store.Runs. If the journal refuses for too long it takes
// effect in memory without beginning the next item: the ending must not wait for
// a disk that is full.
func (st *Store) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	s, now, err := st.take(ctx, a.SID)
	if err != nil {
		return store.FinishResult{}, err
	}
	ch := s.change(st, now, a.Stamp)
	res := new(store.FinishResult)
	*res = finish(ch, &a)
	ch.patient = true
	ch.degrade = func(*change) {
		again := s.change(st, now, a.Stamp)
		a.Pop = nil
		*res = finish(again, &a)
		again.level = volatile
	}
	if err := st.commit(ctx, ch); err != nil {
		return store.FinishResult{}, err
	}
	return *res, nil
}

func finish(ch *change, a *store.FinishArgs) store.FinishResult {
	s := ch.s
	refuse := func(c store.Code) store.FinishResult {
		return store.FinishResult{OwnerResult: ch.refused(c, a.Run)}
	}
	if a.Run != "" && a.Token != "" && s.LastRun == a.Run && s.endToken == a.Token && s.end != nil {
		return *s.end
	}
	if c := ch.refusal(a.Token, a.Run); c != "" {
		return refuse(c)
	}
	switch {
	case a.Seq != s.seq+1:
		return refuse(store.Back)
	case s.Abort && a.Outcome != store.StateAborted:
		return refuse(store.Aborting)
	case !s.Abort && a.Outcome == store.StateAborted, !ending(a.Outcome):
		return refuse(store.Bad)
	}
	ch.level = durable
	before := ch.next.Head
	ch.events(&a.Batch)
	ch.entry(a.End, store.KindEnd, a.Run).QueueLength = len(ch.queue)
	ch.closeWindow()
	rows := ch.runRows(a.Rows)
	ch.mark(s.QID, func(r *LedgerRecord) { r.State = a.Outcome })
	ch.next.Usage = ch.next.Usage.Add(a.Usage)
	ch.endRun(a.Outcome)
	ch.keep(before.Offset)

	ch.next.seq, ch.next.lease = a.Seq, ch.now+a.TTL.Milliseconds()
	ch.next.last = appended{before: before, time: ch.now, rows: rows}
	res := ch.after(a)
	res.Before, res.Last, res.Time, res.Rows = before, ch.next.Head, ch.now, rows
	ch.next.last.last = ch.next.Head
	ch.next.endToken, ch.next.end = a.Token, &res
	return res
}

// ending reports whether a run can end this way.
func ending(o store.State) bool {
	return o == store.StateCompleted || o == store.StateFailed || o == store.StateAborted
}

// endRun clears the run record.
func (ch *change) endRun(outcome store.State) {
	n := &ch.next
	n.LastRun, n.LastOutcome = n.Run, outcome
	n.Run, n.QID, n.Phase, n.Executor, n.WireID = "", "", "", "", ""
	n.Attempt, n.Abort, n.Upstream, n.RunRows, n.UserRow, n.Began = 0, false, nil, 0, 0, 0
	n.BegunIn, n.Covered, n.Updated = 0, n.Head.Offset, ch.now
	ch.active = nil
	ch.fold, ch.folded = nil, true
}

// after decides what follows an ended run.
func (ch *change) after(a *store.FinishArgs) store.FinishResult {
	res := store.FinishResult{OwnerResult: ch.stored(store.Idle)}
	switch {
	case ch.next.Deleting:
		res.Code = store.Purged
		ch.purge()
		ch.vacate()
	case len(ch.queue) == 0:
		ch.vacate()
	case a.Pop != nil && slices.Contains(a.Pop, ch.queue[0].item.Executor):
		res.Code = store.Next
		ch.next.node = a.Node
		it, row := ch.pop()
		res.Item, res.Row = it, row
	default:
		res.Code = store.Waiting
		ch.vacate()
	}
	res.QueueLength = len(ch.queue)
	return res
}

// purge turns a session into a tombstone: the ledger stays, so that a message
// sent again is recognised, and the log for a moment, so that its watchers get
// the ending.
func (ch *change) purge() {
	old := ch.next.Root
	ch.next.Root = Root{
		Version: LayoutVersion, Incarnation: old.Incarnation, Owner: old.Owner, Profile: old.Profile,
		Boot: old.Boot, Head: old.Head, Fence: old.Fence, ItemSeq: old.ItemSeq, LedgerSeq: old.LedgerSeq,
		LastRun: old.LastRun, LastOutcome: old.LastOutcome,
		Tombstone: ch.now + store.TombstoneTTL.Milliseconds(),
	}
	ch.wipe, ch.rows = true, nil
	ch.active = nil
	ch.fold, ch.folded = nil, true
	ch.hint.Deleted = true
}

package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Submit implements store.Items.
func (st *Store) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	s, now, err := st.take(ctx, a.SID)
	if err != nil {
		return store.SubmitResult{}, err
	}
	ch := s.change(st, now, "")
	res := submit(ch, &a)
	if err := st.commit(ctx, ch); err != nil {
		return store.SubmitResult{}, err
	}
	return res, nil
}

func submit(ch *change, a *store.SubmitArgs) store.SubmitResult {
	s, limits := ch.s, ch.st.limits.Load()
	refuse := func(c store.Code) store.SubmitResult {
		return store.SubmitResult{Code: c, Incarnation: ch.next.Incarnation}
	}
	switch {
	case s.forbids(a.Guard):
		return store.SubmitResult{Code: store.Forbidden}
	case s.exists() && s.Deleting:
		return refuse(store.Deleting)
	case s.ledger.get(attemptKey(a.Item.Run)) != nil:
		return refuse(store.Withdrawn)
	}
	if r := s.ledger.item(a.Item.QID); r != nil {
		return again(ch, a, r)
	}
	if ch.st.late(ch.now, a.NotAfter) {
		return store.SubmitResult{Code: store.Expired, Now: ch.now}
	}
	starts := a.Start != nil && !s.busy()
	size := itemBytes(&a.Item)
	if size > limits.ItemBytes || (!starts && (len(s.queue) >= limits.QueueItems || s.QueueBytes+size > limits.QueueBytes)) {
		return refuse(store.Full)
	}
	return accept(ch, a, starts)
}

// accept begins the item's run or queues it.
func accept(ch *change, a *store.SubmitArgs, starts bool) store.SubmitResult {
	ch.level = durable
	if !ch.s.exists() {
		ch.create(a.Guard, a.Create)
	}
	it := a.Item
	it.Accepted = ch.now
	ch.next.Updated = ch.now
	res := store.SubmitResult{Incarnation: ch.next.Incarnation, Before: ch.next.Head, Run: it.Run}
	rec := LedgerRecord{State: store.StateQueued, Run: it.Run, Digest: it.Digest, Before: res.Before}
	if starts {
		rec.State, rec.Started = store.StateActive, true
		ch.grant(a.Start.Token, a.Start.Node, a.Start.TTL)
		res.Row = ch.begin(&it, false)
		rec.Row = res.Row.ID
		res.Code, res.State, res.Fence = store.Started, store.StateActive, ch.next.Fence
	} else {
		ch.push(&it)
		ch.queueEvent()
		res.Code, res.State = store.Queued, store.StateQueued
		res.Length, res.Orphan = len(ch.queue), !ch.next.alive(ch.now, ch.st.opts.SingleProcess)
	}
	res.Last = ch.next.Head
	rec.Last = res.Last
	ch.record(itemKey(it.QID), rec)
	return res
}

// again answers an item that the ledger knows: the first result to the attempt
// that was accepted, while it stands, and the item's state to any other. What
// has been told to another attempt is acknowledged and cannot be withdrawn.
func again(ch *change, a *store.SubmitArgs, r *LedgerRecord) store.SubmitResult {
	s := ch.s
	if r.Digest != a.Item.Digest {
		return store.SubmitResult{Code: store.Conflict, Incarnation: s.Incarnation, State: r.State}
	}
	res := store.SubmitResult{
		Incarnation: s.Incarnation, Before: r.Before, Last: r.Last, State: r.State, Run: r.Run,
	}
	if r.Run == a.Item.Run {
		switch {
		case r.State == store.StateQueued:
			res.Code, res.Length = store.Queued, len(s.queue)
			res.Orphan = !s.alive(ch.now, ch.st.opts.SingleProcess)
			return res
		case r.Started && a.Start != nil && s.Run == r.Run && s.token == a.Start.Token && s.seq == 0:
			res.Code, res.Fence = store.Started, s.Fence
			res.Row = s.userRow()
			return res
		}
	}
	res.Code = store.Repeat
	res.Before, res.Last = s.Head, s.Head
	if !r.Ack {
		ch.level = durable
		ch.mark(a.Item.QID, func(r *LedgerRecord) { r.Ack = true })
	}
	return res
}

// late reports whether a request may not be executed any more.
func (st *Store) late(now, notAfter int64) bool {
	return !st.opts.SingleProcess && notAfter != 0 && now > notAfter
}

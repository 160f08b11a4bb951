package memory

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Append implements store.Runs.
func (st *Store) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	s, now, err := st.take(ctx, b.SID)
	if err != nil {
		return store.OwnerResult{}, err
	}
	ch := s.change(st, now, b.Stamp)
	res := appendBatch(ch, &b)
	if err := st.commit(ctx, ch); err != nil {
		return store.OwnerResult{}, err
	}
	return res, nil
}

func appendBatch(ch *change, b *store.Batch) store.OwnerResult {
	if c := ch.refusal(b.Token, b.Run); c != "" {
		return ch.refused(c, b.Run)
	}
	switch b.Seq {
	case ch.s.seq:
		return ch.stored(store.Dup)
	case ch.s.seq + 1:
	default:
		return ch.refused(store.Back, b.Run)
	}
	ch.level = volatile
	before := ch.next.Head
	ch.events(b)
	rows := ch.runRows(b.Rows)
	ch.patch(b)
	if b.Checkpoint != nil {
		ch.level = max(ch.level, soon)
		ch.fold, ch.folded = b.Checkpoint, true
		ch.next.Covered = ch.next.Head.Offset
		ch.keep(ch.next.Covered)
	}
	ch.logOnly = ch.level == volatile && len(rows) == 0
	if len(rows) > 0 || len(b.Events) > 0 {
		ch.level = max(ch.level, soon)
	}
	ch.next.seq = b.Seq
	ch.next.last = appended{before: before, last: ch.next.Head, time: ch.now, rows: rows}
	ch.next.lease = ch.now + b.TTL.Milliseconds()
	return ch.stored(store.OK)
}

// events writes the owner's events. Kinds that belong to other operations are
// taken as plain events.
func (ch *change) events(b *store.Batch) {
	for _, e := range b.Events {
		if e.Kind != store.KindStarted {
			ch.entry(e, store.KindEvent, b.Run)
			continue
		}
		ch.entry(e, store.KindStarted, b.Run).QueueLength = len(ch.queue)
		ch.closeWindow()
	}
}

// patch changes the run record. What has to be known after a crash is durable at
// once: whether the upstream may have been called, since that decides if the run
// may be run again. That it has answered since then decides nothing.
func (ch *change) patch(b *store.Batch) {
	p := &b.Patch
	if p.Phase != "" && p.Phase != ch.next.Phase {
		ch.level = max(ch.level, soon)
		if ch.next.Phase == store.PhaseStarting || p.Phase == store.PhaseStarting {
			ch.level = durable
		}
		ch.next.Phase = p.Phase
	}
	if p.WireID != "" {
		ch.next.WireID = p.WireID
		ch.level = max(ch.level, soon)
	}
	if p.Upstream != nil {
		ch.next.Upstream = p.Upstream
		ch.level = max(ch.level, soon)
	}
}

// refusal checks the permission to write for a run: Lost, Fenced, Ended or "".
func (ch *change) refusal(token, run string) store.Code {
	switch {
	case !ch.s.exists():
		return store.Lost
	case token == "" || token != ch.s.token:
		return store.Fenced
	case run == "" || run != ch.s.Run:
		return store.Ended
	}
	return ""
}

func (ch *change) refused(c store.Code, run string) store.OwnerResult {
	res := store.OwnerResult{Code: c, Seq: ch.s.seq, MetaVersion: ch.s.MetaVersion}
	if c == store.Fenced || c == store.Ended {
		if r := ch.s.ledger.byRun(run); r != nil {
			res.State = r.State
		}
	}
	return res
}

// stored answers the owner from the state as the change leaves it.
func (ch *change) stored(c store.Code) store.OwnerResult {
	n := &ch.next
	return store.OwnerResult{
		Code: c, Before: n.last.before, Last: n.last.last, Time: n.last.time, Rows: n.last.rows,
		Abort: n.Abort, MetaVersion: n.MetaVersion, QueueLength: len(ch.queue), Seq: n.seq,
	}
}

// Renew implements store.Runs.
func (st *Store) Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (store.OwnerResult, error) {
	return st.asOwner(ctx, sid, token, run, seq, func(ch *change) store.OwnerResult {
		ch.level = volatile
		ch.next.lease = ch.now + ttl.Milliseconds()
		res := ch.stored(store.OK)
		res.Before, res.Last, res.Time, res.Rows = ch.s.Head, ch.s.Head, ch.now, nil
		return res
	})
}

// Release implements store.Runs.
func (st *Store) Release(ctx context.Context, sid, token, run string, seq int64, upstream []byte) (store.OwnerResult, error) {
	return st.asOwner(ctx, sid, token, run, seq, func(ch *change) store.OwnerResult {
		ch.level = soon
		if upstream != nil {
			ch.next.Upstream = upstream
		}
		res := ch.stored(store.OK)
		ch.vacate()
		return res
	})
}

// asOwner does something for the owner of a run who has not fallen behind the
// store; anybody else is refused.
func (st *Store) asOwner(ctx context.Context, sid, token, run string, seq int64, do func(*change) store.OwnerResult) (store.OwnerResult, error) {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return store.OwnerResult{}, err
	}
	ch := s.change(st, now, "")
	var res store.OwnerResult
	switch c := ch.refusal(token, run); {
	case c != "":
		res = ch.refused(c, run)
	case s.seq < seq:
		res = ch.refused(store.Back, run)
	default:
		res = do(ch)
	}
	if err := st.commit(ctx, ch); err != nil {
		return store.OwnerResult{}, err
	}
	return res, nil
}

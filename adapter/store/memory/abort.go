package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// RequestAbort implements store.Runs.
func (st *Store) RequestAbort(ctx context.Context, sid string, g store.Guard, run, _ string, entry store.NewEntry) (store.AbortResult, error) {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return store.AbortResult{}, err
	}
	ch := s.change(st, now, "")
	res := requestAbort(ch, g, run, entry)
	if err := st.commit(ctx, ch); err != nil {
		return store.AbortResult{}, err
	}
	return res, nil
}

func requestAbort(ch *change, g store.Guard, run string, entry store.NewEntry) store.AbortResult {
	s := ch.s
	if s.forbids(g) {
		return store.AbortResult{Code: store.Forbidden}
	}
	if !s.exists() || run == "" {
		return store.AbortResult{Code: store.None}
	}
	if s.Run != run {
		if r := s.ledger.byRun(run); r != nil && r.State != store.StateQueued {
			return store.AbortResult{Code: store.Ended, State: r.State}
		}
		if s.Run != "" {
			return store.AbortResult{Code: store.Ended}
		}
		return store.AbortResult{Code: store.None}
	}
	res := store.AbortResult{
		Code: store.Already, Alive: s.alive(ch.now, ch.st.opts.SingleProcess), Node: s.node, Phase: s.Phase,
	}
	if s.Abort {
		return res
	}
	ch.level = durable
	ch.next.Abort = true
	ch.entry(entry, store.KindAbort, run)
	ch.hint.Abort = true
	res.Code = store.OK
	return res
}

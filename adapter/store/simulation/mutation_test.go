package simulation

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// mutate wraps the store so that it lacks a rule. The rules writeAhead, park, settle
// and reinstate are the nodes' own.
func mutate(w *world, without rule) store.Store {
	switch without {
	case tokenCheck:
		return &noTokenCheck{w.mem}
	case ack:
		return &noAck{w.mem}
	case notAfter:
		return &noNotAfter{w.mem}
	}
	return w.mem
}

// noTokenCheck lets any node write for the active run.
type noTokenCheck struct{ store.Store }

func (s *noTokenCheck) forge(ctx context.Context, b *store.Batch) {
	h, err := s.Head(ctx, b.SID)
	if err != nil || h[0].Run.Run != b.Run || h[0].Run.Token == b.Token {
		return
	}
	b.Token = h[0].Run.Token
	res, err := s.Renew(ctx, b.SID, b.Token, b.Run, 0, b.TTL)
	if err == nil && res.Code == store.OK {
		b.Seq = res.Seq + 1
	}
}

func (s *noTokenCheck) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	s.forge(ctx, &b)
	return s.Store.Append(ctx, b)
}

func (s *noTokenCheck) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	s.forge(ctx, &a.Batch)
	return s.Store.Finish(ctx, a)
}

// noAck tells another attempt of a waiting message without remembering that.
type noAck struct{ store.Store }

func (s *noAck) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	snap, err := s.Snapshot(ctx, a.SID)
	if err != nil {
		return store.SubmitResult{}, err
	}
	for _, it := range snap.Queue {
		if it.QID == a.Item.QID && it.Run != a.Item.Run {
			return store.SubmitResult{Code: store.Repeat, State: store.StateQueued, Run: it.Run}, nil
		}
	}
	return s.Store.Submit(ctx, a)
}

// noNotAfter executes a Submit however late it arrives.
type noNotAfter struct{ store.Store }

func (s *noNotAfter) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	a.NotAfter = 0
	return s.Store.Submit(ctx, a)
}

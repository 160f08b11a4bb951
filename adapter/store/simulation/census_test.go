package simulation

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// census counts what the operations answer.
type census struct {
	store.Store
	met map[string]int
}

func (s *census) count(op string, c store.Code) { s.met[op+" "+string(c)]++ }

func (s *census) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	res, err := s.Store.Submit(ctx, a)
	s.count("Submit", res.Code)
	return res, err
}

func (s *census) Withdraw(ctx context.Context, sid, qid, run string) (store.WithdrawResult, error) {
	res, err := s.Store.Withdraw(ctx, sid, qid, run)
	s.count("Withdraw", res.Code)
	return res, err
}

func (s *census) CancelQueued(ctx context.Context, sid string, g store.Guard, qid string) (store.CancelResult, error) {
	res, err := s.Store.CancelQueued(ctx, sid, g, qid)
	s.count("CancelQueued", res.Code)
	return res, err
}

func (s *census) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	res, err := s.Store.Append(ctx, b)
	s.count("Append", res.Code)
	return res, err
}

func (s *census) Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (store.OwnerResult, error) {
	res, err := s.Store.Renew(ctx, sid, token, run, seq, ttl)
	s.count("Renew", res.Code)
	return res, err
}

func (s *census) Release(ctx context.Context, sid, token, run string, seq int64, up []byte) (store.OwnerResult, error) {
	res, err := s.Store.Release(ctx, sid, token, run, seq, up)
	s.count("Release", res.Code)
	return res, err
}

func (s *census) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	res, err := s.Store.Finish(ctx, a)
	s.count("Finish", res.Code)
	return res, err
}

func (s *census) RequestAbort(ctx context.Context, sid string, g store.Guard, run, cid string, e store.NewEntry) (store.AbortResult, error) {
	res, err := s.Store.RequestAbort(ctx, sid, g, run, cid, e)
	s.count("RequestAbort", res.Code)
	return res, err
}

func (s *census) TakeOver(ctx context.Context, a store.TakeOverArgs) (store.TakeOverResult, error) {
	res, err := s.Store.TakeOver(ctx, a)
	s.count("TakeOver", res.Code)
	if res.Rerun {
		s.count("TakeOver", "rerun")
	}
	return res, err
}

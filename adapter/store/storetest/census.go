package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Census is a store that notes what its operations answer, so that a test can
// tell whether it has met what it was meant to meet. It is safe for concurrent
// use.
type Census struct {
	store.Store
	Met *Met
}

// Met counts answers by operation and code, e.g. "Submit started".
type Met struct {
	mu sync.Mutex
	n  map[string]int
}

// Missing returns those of the wanted answers that were never given.
func (m *Met) Missing(want ...string) (missing []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range want {
		if m.n[w] == 0 {
			missing = append(missing, w)
		}
	}
	return missing
}

func (s *Census) count(op string, c store.Code) {
	s.Met.mu.Lock()
	defer s.Met.mu.Unlock()
	if s.Met.n == nil {
		s.Met.n = make(map[string]int)
	}
	s.Met.n[op+" "+string(c)]++
}

// Submit implements store.Store.
func (s *Census) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	res, err := s.Store.Submit(ctx, a)
	s.count("Submit", res.Code)
	return res, err
}

// Withdraw implements store.Store.
func (s *Census) Withdraw(ctx context.Context, sid, qid, run string) (store.WithdrawResult, error) {
	res, err := s.Store.Withdraw(ctx, sid, qid, run)
	s.count("Withdraw", res.Code)
	return res, err
}

// CancelQueued implements store.Store.
func (s *Census) CancelQueued(ctx context.Context, sid string, g store.Guard, qid string) (store.CancelResult, error) {
	res, err := s.Store.CancelQueued(ctx, sid, g, qid)
	s.count("CancelQueued", res.Code)
	return res, err
}

// Append implements store.Store.
func (s *Census) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	res, err := s.Store.Append(ctx, b)
	s.count("Append", res.Code)
	return res, err
}

// Renew implements store.Store.
func (s *Census) Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (store.OwnerResult, error) {
	res, err := s.Store.Renew(ctx, sid, token, run, seq, ttl)
	s.count("Renew", res.Code)
	return res, err
}

// Release implements store.Store.
func (s *Census) Release(ctx context.Context, sid, token, run string, seq int64, up []byte) (store.OwnerResult, error) {
	res, err := s.Store.Release(ctx, sid, token, run, seq, up)
	s.count("Release", res.Code)
	return res, err
}

// Finish implements store.Store.
func (s *Census) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	res, err := s.Store.Finish(ctx, a)
	s.count("Finish", res.Code)
	return res, err
}

// RequestAbort implements store.Store.
func (s *Census) RequestAbort(ctx context.Context, sid string, g store.Guard, run, cid string, e store.NewEntry) (store.AbortResult, error) {
	res, err := s.Store.RequestAbort(ctx, sid, g, run, cid, e)
	s.count("RequestAbort", res.Code)
	return res, err
}

// TakeOver implements store.Store.
func (s *Census) TakeOver(ctx context.Context, a store.TakeOverArgs) (store.TakeOverResult, error) {
	res, err := s.Store.TakeOver(ctx, a)
	s.count("TakeOver", res.Code)
	if res.Rerun {
		s.count("TakeOver", "rerun")
	}
	return res, err
}

// Note implements store.Store.
func (s *Census) Note(ctx context.Context, a store.NoteArgs) (store.Code, error) {
	c, err := s.Store.Note(ctx, a)
	s.count("Note", c)
	return c, err
}

// Update implements store.Store.
func (s *Census) Update(ctx context.Context, a store.UpdateArgs) (store.Code, store.Session, error) {
	c, after, err := s.Store.Update(ctx, a)
	s.count("Update", c)
	return c, after, err
}

// DropQueue implements store.Store.
func (s *Census) DropQueue(ctx context.Context, sid string, g store.Guard, notAfter int64) (store.Code, error) {
	c, err := s.Store.DropQueue(ctx, sid, g, notAfter)
	s.count("DropQueue", c)
	return c, err
}

// Delete implements store.Store.
func (s *Census) Delete(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	c, err := s.Store.Delete(ctx, sid, g, opID, notAfter)
	s.count("Delete", c)
	return c, err
}

// Clear implements store.Store.
func (s *Census) Clear(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	c, err := s.Store.Clear(ctx, sid, g, opID, notAfter)
	s.count("Clear", c)
	return c, err
}

// Rows implements store.Store.
func (s *Census) Rows(ctx context.Context, sid string, gen, before int64, limit, maxBytes int) (store.Code, []store.Row, bool, error) {
	c, rows, more, err := s.Store.Rows(ctx, sid, gen, before, limit, maxBytes)
	s.count("Rows", c)
	return c, rows, more, err
}

// ReadLog implements store.Store.
func (s *Census) ReadLog(ctx context.Context, sid, incarnation string, after store.Position, limit int) (store.ReadResult, error) {
	res, err := s.Store.ReadLog(ctx, sid, incarnation, after, limit)
	s.count("ReadLog", res.Code)
	return res, err
}

// SaveConn implements store.Store.
func (s *Census) SaveConn(ctx context.Context, r store.ConnRecord, ttl time.Duration) (store.Code, error) {
	c, err := s.Store.SaveConn(ctx, r, ttl)
	s.count("SaveConn", c)
	return c, err
}

// TouchConn implements store.Store.
func (s *Census) TouchConn(ctx context.Context, pid, holder string, ttl time.Duration) (store.Code, error) {
	c, err := s.Store.TouchConn(ctx, pid, holder, ttl)
	s.count("TouchConn", c)
	return c, err
}

// ClaimConn implements store.Store.
func (s *Census) ClaimConn(ctx context.Context, pid, user, holder string, ttl time.Duration) (store.Code, store.ConnRecord, error) {
	c, r, err := s.Store.ClaimConn(ctx, pid, user, holder, ttl)
	s.count("ClaimConn", c)
	return c, r, err
}

// Reinstate implements store.Store.
func (s *Census) Reinstate(ctx context.Context, a store.ReinstateArgs) (store.ReinstateResult, error) {
	res, err := s.Store.Reinstate(ctx, a)
	s.count("Reinstate", res.Code)
	return res, err
}

// Bury implements store.Store.
func (s *Census) Bury(ctx context.Context, a store.BuryArgs) (store.Code, error) {
	c, err := s.Store.Bury(ctx, a)
	s.count("Bury", c)
	return c, err
}

// TakeSlot implements store.Store.
func (s *Census) TakeSlot(ctx context.Context, gateway, run string, limit int, ttl time.Duration) (store.SlotResult, error) {
	res, err := s.Store.TakeSlot(ctx, gateway, run, limit, ttl)
	s.count("TakeSlot", res.Code)
	return res, err
}

// answers are all results of contract section 4.
var answers = []string{
	"Submit started", "Submit queued", "Submit repeat", "Submit forbidden", "Submit deleting", "Submit withdrawn",
	"Submit conflict", "Submit full",
	"Withdraw done", "Withdraw kept", "Withdraw active",
	"CancelQueued cancelled", "CancelQueued not_queued", "CancelQueued forbidden",
	"Append ok", "Append dup", "Append lost", "Append fenced", "Append ended", "Append back",
	"Renew ok", "Renew lost", "Renew fenced", "Renew ended", "Renew back",
	"Release ok", "Release fenced", "Release back",
	"Finish idle", "Finish next", "Finish waiting", "Finish purged", "Finish aborting", "Finish bad",
	"Finish lost", "Finish fenced", "Finish ended", "Finish back",
	"RequestAbort ok", "RequestAbort already", "RequestAbort ended", "RequestAbort none", "RequestAbort forbidden",
	"TakeOver idle", "TakeOver held", "TakeOver unfit", "TakeOver run", "TakeOver next",
	"Note ok", "Note repeat", "Note forbidden", "Note deleting", "Note none",
	"Update ok", "Update changed", "Update forbidden", "Update none",
	"DropQueue ok", "DropQueue forbidden", "DropQueue none",
	"Delete done", "Delete busy", "Delete forbidden", "Delete none",
	"Clear ok", "Clear busy", "Clear forbidden", "Clear none",
	"Rows ok", "Rows stale", "ReadLog ok", "ReadLog behind", "ReadLog diverged",
	"SaveConn ok", "SaveConn taken", "TouchConn ok", "TouchConn taken", "TouchConn none",
	"ClaimConn ok", "ClaimConn none", "ClaimConn forbidden",
	"Reinstate ended", "TakeSlot ok", "TakeSlot waiting",
}

// recoverAnswers are given by stores that may lose writes.
var recoverAnswers = []string{"Reinstate ok", "Reinstate busy", "Reinstate fenced", "Bury ok", "Bury forbidden"}

// lateAnswers are given by stores that enforce NotAfter.
var lateAnswers = []string{"Submit expired", "Update expired", "DropQueue expired", "Delete expired", "Clear expired"}

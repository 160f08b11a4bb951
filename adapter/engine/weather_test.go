package engine_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// sky is the state of the way to a store.
type sky int

const (
	clear  sky = iota
	down       // calls fail at once: certainly not executed
	silent     // calls are not executed and nobody says so
	deaf       // calls are executed, their answers are lost
	slow       // calls are executed and answered after a while, whatever the caller's patience
)

const (
	silence  = time.Second     // how long a call waits for an answer
	slowness = 6 * time.Second // how long a slow one takes
)

// weather is a node's way to a store that can be away, answer late and lose hints.
// Several nodes may have a way of their own to one store.
type weather struct {
	store.Store

	mu       sync.Mutex
	sky      sky
	appends  sky // for Append alone
	contents sky // for QueuedRows alone
	muted    bool
	taken    func() // called between a snapshot and its answer
	ended    func() // called between an ending and its answer
	offered  func() // called in the place of the answer to a message
}

func newWeather(st store.Store) *weather { return &weather{Store: st} }

func (w *weather) set(s sky) { w.mu.Lock(); defer w.mu.Unlock(); w.sky, w.appends = s, s }

func (w *weather) setAppends(s sky) { w.mu.Lock(); defer w.mu.Unlock(); w.appends = s }

func (w *weather) setContents(s sky) { w.mu.Lock(); defer w.mu.Unlock(); w.contents = s }

// mute drops hints from now on.
func (w *weather) mute() { w.mu.Lock(); defer w.mu.Unlock(); w.muted = true }

func (w *weather) state() (sky, bool) { w.mu.Lock(); defer w.mu.Unlock(); return w.sky, w.muted }

// whenTaken has f called when the next snapshot is taken and not answered yet.
func (w *weather) whenTaken(f func()) { w.mu.Lock(); defer w.mu.Unlock(); w.taken = f }

// afterFinish has f called when the next ending is stored and not answered yet.
func (w *weather) afterFinish(f func()) { w.mu.Lock(); defer w.mu.Unlock(); w.ended = f }

// submits has f called when the next message is stored, and its answer lost.
func (w *weather) submits(f func()) { w.mu.Lock(); defer w.mu.Unlock(); w.offered = f }

// through lets a call pass as the weather is.
func through[T any](ctx context.Context, w *weather, call func(context.Context) (T, error)) (T, error) {
	s, _ := w.state()
	return under(ctx, s, call)
}

func under[T any](ctx context.Context, s sky, call func(context.Context) (T, error)) (T, error) {
	var none T
	switch s {
	case slow:
		time.Sleep(slowness)
		return call(context.WithoutCancel(ctx))
	case down:
		return none, fmt.Errorf("%w: connection refused", store.ErrUnavailable)
	case silent:
		return none, unanswered(ctx)
	case deaf:
		if _, err := call(context.WithoutCancel(ctx)); err != nil {
			return none, err
		}
		return none, unanswered(ctx)
	}
	return call(ctx)
}

func unanswered(ctx context.Context) error {
	select {
	case <-time.After(silence):
	case <-ctx.Done():
	}
	return fmt.Errorf("%w: no answer", store.ErrUnknown)
}

type nothing struct{}

func none(err error) (nothing, error) { return nothing{}, err }

func (w *weather) Generation() uint64 { return w.Store.(store.Recovery).Generation() }

func (w *weather) Reinstate(ctx context.Context, a store.ReinstateArgs) (store.ReinstateResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.ReinstateResult, error) {
		return w.Store.(store.Recovery).Reinstate(ctx, a)
	})
}

func (w *weather) Bury(ctx context.Context, a store.BuryArgs) (store.Code, error) {
	return through(ctx, w, func(ctx context.Context) (store.Code, error) { return w.Store.(store.Recovery).Bury(ctx, a) })
}

func (w *weather) TakeSlot(ctx context.Context, gateway, run string, limit int, ttl time.Duration) (store.SlotResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.SlotResult, error) {
		return w.Store.(store.Slots).TakeSlot(ctx, gateway, run, limit, ttl)
	})
}

func (w *weather) FreeSlot(ctx context.Context, gateway, run string) error {
	_, err := through(ctx, w, func(ctx context.Context) (nothing, error) {
		return none(w.Store.(store.Slots).FreeSlot(ctx, gateway, run))
	})
	return err
}

func (w *weather) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	res, err := through(ctx, w, func(ctx context.Context) (store.SubmitResult, error) { return w.Store.Submit(ctx, a) })
	w.mu.Lock()
	offered := w.offered
	w.offered = nil
	w.mu.Unlock()
	if offered != nil {
		offered()
		return store.SubmitResult{}, unanswered(ctx)
	}
	return res, err
}

func (w *weather) Withdraw(ctx context.Context, sid, qid, run string) (store.WithdrawResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.WithdrawResult, error) { return w.Store.Withdraw(ctx, sid, qid, run) })
}

func (w *weather) CancelQueued(ctx context.Context, sid string, g store.Guard, qid string) (store.CancelResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.CancelResult, error) { return w.Store.CancelQueued(ctx, sid, g, qid) })
}

func (w *weather) QueuedRows(ctx context.Context, sid string, qids []string) (map[string]store.Row, error) {
	w.mu.Lock()
	s := max(w.sky, w.contents)
	w.mu.Unlock()
	return under(ctx, s, func(ctx context.Context) (map[string]store.Row, error) { return w.Store.QueuedRows(ctx, sid, qids) })
}

func (w *weather) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	w.mu.Lock()
	s := w.appends
	w.mu.Unlock()
	return under(ctx, s, func(ctx context.Context) (store.OwnerResult, error) { return w.Store.Append(ctx, b) })
}

func (w *weather) Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (store.OwnerResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.OwnerResult, error) {
		return w.Store.Renew(ctx, sid, token, run, seq, ttl)
	})
}

func (w *weather) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	res, err := through(ctx, w, func(ctx context.Context) (store.FinishResult, error) { return w.Store.Finish(ctx, a) })
	w.mu.Lock()
	ended := w.ended
	w.ended = nil
	w.mu.Unlock()
	if ended != nil {
		ended()
	}
	return res, err
}

func (w *weather) Release(ctx context.Context, sid, token, run string, seq int64, up []byte) (store.OwnerResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.OwnerResult, error) {
		return w.Store.Release(ctx, sid, token, run, seq, up)
	})
}

func (w *weather) RequestAbort(ctx context.Context, sid string, g store.Guard, run, cid string, en store.NewEntry) (store.AbortResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.AbortResult, error) {
		return w.Store.RequestAbort(ctx, sid, g, run, cid, en)
	})
}

func (w *weather) TakeOver(ctx context.Context, a store.TakeOverArgs) (store.TakeOverResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.TakeOverResult, error) { return w.Store.TakeOver(ctx, a) })
}

func (w *weather) Head(ctx context.Context, sids ...string) ([]store.Session, error) {
	return through(ctx, w, func(ctx context.Context) ([]store.Session, error) { return w.Store.Head(ctx, sids...) })
}

func (w *weather) Snapshot(ctx context.Context, sid string) (store.Snapshot, error) {
	snap, err := through(ctx, w, func(ctx context.Context) (store.Snapshot, error) { return w.Store.Snapshot(ctx, sid) })
	w.mu.Lock()
	taken := w.taken
	w.taken = nil
	w.mu.Unlock()
	if taken != nil {
		taken()
	}
	return snap, err
}

func (w *weather) ReadLog(ctx context.Context, sid, ep string, after store.Position, limit int) (store.ReadResult, error) {
	return through(ctx, w, func(ctx context.Context) (store.ReadResult, error) {
		return w.Store.ReadLog(ctx, sid, ep, after, limit)
	})
}

func (w *weather) Subscribe(ctx context.Context, sid string, notify func(store.Hint)) (store.Subscription, error) {
	return through(ctx, w, func(ctx context.Context) (store.Subscription, error) {
		return w.Store.Subscribe(ctx, sid, func(h store.Hint) {
			if s, muted := w.state(); h.Established || s == clear && !muted {
				notify(h)
			}
		})
	})
}

func (w *weather) Arm(ctx context.Context, sid string, delay time.Duration) error {
	_, err := through(ctx, w, func(ctx context.Context) (nothing, error) { return none(w.Store.Arm(ctx, sid, delay)) })
	return err
}

func (w *weather) Due(ctx context.Context, n int) ([]store.Due, error) {
	return through(ctx, w, func(ctx context.Context) ([]store.Due, error) { return w.Store.Due(ctx, n) })
}

func (w *weather) Rescore(ctx context.Context, d store.Due, delay time.Duration, parked bool) error {
	_, err := through(ctx, w, func(ctx context.Context) (nothing, error) { return none(w.Store.Rescore(ctx, d, delay, parked)) })
	return err
}

func (w *weather) Disarm(ctx context.Context, d store.Due) error {
	_, err := through(ctx, w, func(ctx context.Context) (nothing, error) { return none(w.Store.Disarm(ctx, d)) })
	return err
}

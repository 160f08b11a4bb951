package engine

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// ErrDetached is the cause with which the context of a run ends that another node is
// to go on with: the executor stops reading and does not stop the upstream.
var ErrDetached = errors.New("another server goes on with the run")

// Detacher is a Reattacher that leaves runs behind.
type Detacher interface {
	Reattacher
	// CanReattach reports whether another node can go on with a run that has begun
	// under wireID, after its context has ended with ErrDetached. With unharmed the
	// upstream goes on as if nothing had happened; without, a run is left behind only
	// if it had to be stopped otherwise.
	CanReattach(wireID string) (ok, unharmed bool)
}

// detachAll leaves to other nodes what they can go on with (contract 5.7). last: the
// time for runs to end by themselves is over.
func (e *Engine) detachAll(last bool) {
	if !e.lossy() {
		return
	}
	for _, s := range e.active() {
		var r *runner
		s.box.do(func() { r = s.runner })
		if r != nil {
			r.detach(last)
		}
		e.release(s)
	}
}

func (r *runner) detach(last bool) {
	now := r.current.Load()
	if now == nil {
		return
	}
	ok, unharmed := now.out.canLeave(now.profile)
	if ok && (unharmed || last) {
		now.cancel(ErrDetached)
	}
}

// canLeave reports whether another node can go on with the run as it is stored: it was
// not sent yet, or its executor can pick it up.
func (w *writer) canLeave(profile string) (ok, unharmed bool) {
	w.lock()
	at, gone := w.origin, w.gone
	w.unlock()
	switch {
	case !w.r.e.lossy() || gone || at.doomed:
		return false, false
	case !at.sent:
		return true, true
	}
	_, x, err := w.r.e.cfg.Executors(profile)
	if d, is := x.(Detacher); err == nil && is && at.wireID != "" {
		return d.CanReattach(at.wireID)
	}
	return false, false
}

// leavingCause is why a run that begins while the node drains ends.
func (w *writer) leavingCause(profile string) error {
	if ok, _ := w.canLeave(profile); ok {
		return ErrDetached
	}
	return errRestarting
}

// left reports whether the run, whose executor has returned, is left to another node.
func (w *writer) left(out Outcome, cause error) bool {
	if !errors.Is(cause, ErrDetached) || !out.Failed {
		return false
	}
	ok, _ := w.canLeave(w.r.item.Profile)
	return ok
}

// leaveBehind gives the tenure of a run up, for whoever takes it.
func (r *runner) leaveBehind() {
	var res store.OwnerResult
	answered := r.e.untilAnswered(func(ctx context.Context) (err error) {
		res, err = r.e.cfg.Store.Release(ctx, r.s.sid, r.token, r.item.Run, r.seq, nil)
		return err
	})
	if !answered || res.Code != store.OK {
		r.s.logger().Warn("run not handed over; its lease runs out", zap.String("answer", string(res.Code)))
		return
	}
	r.e.handOut(r.s.sid, r.item.Executor)
}

// handOut leaves work to other nodes, at once.
func (e *Engine) handOut(sid, class string) {
	e.arm(sid)
	ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
	defer cancel()
	e.notify(ctx, sid, class)
}

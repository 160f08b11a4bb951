package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Ages of the last acknowledged word of a tenure, counted from when the call was
// issued (contract 5.2.3 and 9.3).
const (
	freshFor   = store.LeaseTTL / 3     // younger: the upstream may be called
	fenceAfter = 2 * store.LeaseTTL / 3 // older: somebody else may own the run before long
)

// askAgain is the pause before a call that must not be given up is repeated.
const askAgain = 100 * time.Millisecond

const textReconnecting = "The server is reconnecting to its storage; the answer goes on and is stored as soon as possible"

// age answers how long ago t was, by the clock that has moved further: the
// monotonic one stands still while a machine is suspended.
func age(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// confirmed notes that a call was acknowledged. The caller holds the turn.
func (w *writer) confirmed(asked asking) {
	if asked.at.After(w.written) {
		w.written, w.generation = asked.at, asked.generation
	}
	w.fenced = false
}

// fresh waits until the store has confirmed the tenure so lately that nobody else
// can own the run now.
func (w *writer) fresh(ctx context.Context) error {
	for {
		w.lock()
		gone, at, known := w.gone, w.written, w.generation
		w.unlock()
		switch {
		case gone:
			return errLost
		case age(at) <= freshFor && known == w.r.e.generation():
			return nil
		}
		if w.renew() == nil {
			continue
		}
		if err := pause(ctx, askAgain); err != nil {
			return err
		}
	}
}

// renew keeps the lease while nothing is written. It does not hold the turn while it
// waits for the store, so that the executor goes on. An error is trouble of the
// store; a refusal is heeded.
func (w *writer) renew() error {
	r := w.r
	w.lock()
	seq, repairs := r.seq, w.repairs
	w.unlock()
	if err := r.e.cfg.Store.Arm(r.e.ctx, r.s.sid, store.LeaseTTL); err != nil {
		return err
	}
	asked := r.e.ask()
	res, err := r.e.cfg.Store.Renew(r.e.ctx, r.s.sid, r.token, r.item.Run, seq, store.LeaseTTL)
	if err != nil {
		return err
	}
	w.lock()
	defer w.unlock()
	switch {
	case w.gone || w.repairs != repairs:
	case acknowledged(res.Code):
		w.confirmed(asked)
		w.heedAbort(res)
	default:
		w.refused(res)
	}
	return nil
}

// tellReconnecting tells the members once that the tenure is in doubt. The caller
// holds the turn.
func (w *writer) tellReconnecting() {
	if w.fenced {
		return
	}
	w.fenced = true
	s := w.r.s
	s.logger().Warn("the store has not confirmed the run for long", zap.Duration("age", age(w.written)))
	payload := chatrun.AgentEvent(s.sid, w.origin.wireID, "reconnecting", textReconnecting)
	s.box.do(func() { s.notice(&Event{Name: chatrun.EventAgentEvent, Payload: payload}) })
}

// notice shows something to every member that is not in the log.
func (s *session) notice(ev *Event) {
	for _, m := range s.members {
		m.sock.Send(ev, s.unlogged(m))
	}
}

// pause waits for d, or answers why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

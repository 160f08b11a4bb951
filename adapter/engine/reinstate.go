package engine

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

var errLostByStore = errors.New("the store has lost the run")

// untilAnswered repeats a call until the store answers. It answers false when the
// engine closes first.
func (e *Engine) untilAnswered(call func(context.Context) error) bool {
	for {
		ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
		err := call(ctx)
		cancel()
		if err == nil {
			return true
		}
		if errors.Is(err, store.ErrTooNew) || pause(e.ctx, askAgain) != nil {
			return false
		}
	}
}

// bringBack makes a run the active one again in a store that has lost it, behind the
// kept endings of its session. With OK the run goes on at the sequence number of the
// account; with anything else it is not ours any more.
func (e *Engine) bringBack(run store.ReinstateArgs, open []store.NewRow) store.Code {
	waiting := e.replay(run.SID)
	code := e.reinstate(run)
	e.log.Warn("run lost by the store", zap.String("session", run.SID), zap.String("reinstated", string(code)))
	if code == store.Busy {
		e.bury(run, open)
	}
	if waiting && code != store.OK {
		e.arm(run.SID)
	}
	return code
}

func (e *Engine) reinstate(run store.ReinstateArgs) store.Code {
	var res store.ReinstateResult
	answered := e.untilAnswered(func(ctx context.Context) (err error) {
		run.Stamp = newStamp()
		res, err = e.cfg.Store.Reinstate(ctx, run)
		return err
	})
	if !answered {
		return store.Lost
	}
	if res.Code == store.OK {
		e.cfg.Metrics.Reinstated()
	}
	return res.Code
}

// bury records a run that has no place any more, with the text it had.
func (e *Engine) bury(run store.ReinstateArgs, last []store.NewRow) {
	e.cfg.Metrics.Buried()
	e.untilAnswered(func(ctx context.Context) error {
		_, err := e.cfg.Store.Bury(ctx, store.BuryArgs{
			SID: run.SID, Guard: run.Guard, Create: run.Create, Item: run.Item, Rows: slices.Concat(run.Rows, last),
		})
		return err
	})
}

// replay makes sure that the store knows the endings of a session's last minute, in
// their order. It reports whether messages wait behind the last of them.
func (e *Engine) replay(sid string) (waiting bool) {
	for _, k := range e.kept.of(sid) {
		res := e.finishAgain(k.args)
		if e.lostByStore(res, 0) {
			switch e.reinstate(k.run) {
			case store.OK:
				res = e.finishAgain(k.args)
			case store.Busy:
				e.bury(k.run, k.args.Rows)
			}
		}
		waiting = res.Code == store.Waiting
	}
	return waiting
}

// finishAgain repeats an ending without beginning what is behind it.
func (e *Engine) finishAgain(args store.FinishArgs) store.OwnerResult {
	for {
		var res store.FinishResult
		answered := e.untilAnswered(func(ctx context.Context) (err error) {
			args.Stamp = newStamp()
			res, err = e.cfg.Store.Finish(ctx, args)
			return err
		})
		if !answered || res.Code != store.Aborting {
			return res.OwnerResult
		}
		// Asked for when the store had forgotten that the run was over.
		args.Outcome = store.StateAborted
		args.End.Name, args.End.Payload = chatrun.EventAbortCompleted, chatrun.AbortCompleted(args.SID, "", true)
	}
}

// reinstate brings the run back with all that was built so far; the outbox holds what
// is built meanwhile, and goes on behind it.
func (w *writer) reinstate() {
	r := w.r
	w.lock()
	if w.gone {
		w.unlock()
		return
	}
	answer := *w.outbox.lost
	run, n := r.account(w.built), len(w.outbox.batches)
	open := finalRows(r.view.Text(), r.view.Reasoning(), store.StateFailed)
	over := r.memory.over
	w.unlock()

	asked := r.e.ask()
	code := store.Busy
	switch {
	case !over:
		code = r.e.bringBack(run, open)
	case answer.Code != store.Back:
		r.e.bury(run, open)
	}

	w.lock()
	defer w.unlock()
	switch {
	case w.gone:
	case code == store.OK:
		r.seq = run.Seq
		w.settledAt(n, asked)
	case over && answer.Code == store.Back:
		// The store still has the beginning: the run ends there, with its open text.
		r.seq = answer.Seq
		w.settledAt(len(w.outbox.batches), asked)
		w.built = answer.Seq
		r.cancel(errLostByStore)
	default:
		r.e.cfg.Metrics.FenceLost()
		w.giveUp(errLost)
	}
}

// settledAt goes on behind the first n batches of the outbox, which are settled. The
// caller holds the turn.
func (w *writer) settledAt(n int, asked asking) {
	w.repairs++
	w.drop(n)
	w.outbox.lost = nil
	w.confirmed(asked)
	w.uncovered, w.size = 0, 0
	s := w.r.s
	s.box.do(s.follow)
}

// restored reports whether the run, found lost when it was to end, is back.
func (r *runner) restored(res store.OwnerResult, open []store.NewRow) bool {
	if !r.e.lostByStore(res, r.out.generation) {
		return false
	}
	asked := r.e.ask()
	switch {
	case !r.memory.over:
		if r.e.bringBack(r.account(r.seq), open) != store.OK {
			return false
		}
	case res.Code == store.Back:
		r.seq = res.Seq
	default:
		r.e.bury(r.account(r.seq), open)
		return false
	}
	r.out.generation = asked.generation
	return true
}

package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxAttempts is how many nodes one run may cost (H31).
const maxAttempts = 2

// interruptedText is the cause of a run whose node is gone and that cannot be
// picked up again.
const interruptedText = "The server was restarted while this answer was being written; what had arrived is kept"

// sweepLoop looks for sessions that need a node.
func (e *Engine) sweepLoop() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-tick.C:
			e.forgetFinishes()
			_, err := e.sweep(e.ctx)
			if err != nil && !failing && e.ctx.Err() == nil {
				e.log.Warn("sessions that need a node cannot be looked up; tried again each second", zap.Error(err))
			}
			failing = err != nil
		case <-e.ctx.Done():
			return
		}
	}
}

// sweep takes what is due in the work index and answers how much that was.
func (e *Engine) sweep(ctx context.Context) (int, error) {
	if !e.mayTakeOver() {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	due, err := e.cfg.Store.Due(ctx, sweepBatch)
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		s := e.acquire(d.SID)
		err := s.attend(ctx, d)
		e.release(s)
		if err != nil {
			e.log.Warn("due session not attended", zap.String("session", d.SID), zap.Error(err))
		}
	}
	return len(due), nil
}

// attend takes over a due session if it needs that, and says when to look again.
func (s *session) attend(ctx context.Context, d store.Due) error {
	res, err := s.claim(ctx)
	if err != nil {
		return err
	}
	index := s.e.cfg.Store
	switch {
	case res.Code == store.Held:
		return index.Rescore(ctx, d, res.Remaining, false)
	case res.Code == store.Unfit:
		if err := s.misfit(ctx, res.Executor); err != nil {
			return err
		}
		return index.Rescore(ctx, d, unfitLook, false)
	case res.Code == store.Resumed, res.Code == store.Next:
		return index.Rescore(ctx, d, store.LeaseTTL, false)
	case d.Parked:
		return index.Disarm(ctx, d)
	default:
		return index.Rescore(ctx, d, store.ParkTime, true)
	}
}

// takeOverIfOrphan is for those who meet a busy session without a live owner.
func (s *session) takeOverIfOrphan(ctx context.Context, head store.Session) error {
	if !head.Exists() || !head.Busy() || head.Run.Alive {
		return nil
	}
	return s.takeOver(ctx)
}

func (s *session) takeOver(ctx context.Context) error {
	if !s.e.mayTakeOver() {
		s.e.arm(s.sid)
		return nil
	}
	if err := s.e.cfg.Store.Arm(ctx, s.sid, store.LeaseTTL); err != nil {
		return err
	}
	_, err := s.claim(ctx)
	return err
}

// claim asks for the tenure and goes on with whatever it brings (contract 5.6).
func (s *session) claim(ctx context.Context) (store.TakeOverResult, error) {
	if err := s.ensureOpen(ctx); err != nil {
		return store.TakeOverResult{}, err
	}
	token := s.e.newToken()
	res, err := s.e.cfg.Store.TakeOver(ctx, store.TakeOverArgs{
		SID: s.sid, Token: token, Node: s.e.cfg.Node, TTL: store.LeaseTTL, Caps: s.e.claims(),
	})
	if err != nil || res.Code != store.Resumed && res.Code != store.Next {
		return res, err
	}
	s.e.misfits.clear(s.sid)
	r := s.taken(res, token)
	switch {
	case res.Code == store.Next:
		r.tookOver("queued")
		r.start(res.Item, res.Row)
	case res.Rerun:
		r.tookOver("rerun")
		r.start(res.Item, res.Row)
	default:
		r.tookOver("picked_up")
		r.pickUp(res)
	}
	return res, nil
}

func (r *runner) tookOver(kind string) {
	r.e.cfg.Metrics.TookOver(kind)
	r.s.logger().Info("taken over", zap.String("kind", kind), zap.Int("attempt", r.attempt), zap.Int64("fence", r.fence))
}

// taken makes the runner of a tenure that was won.
func (s *session) taken(res store.TakeOverResult, token string) *runner {
	r := newRunner(s, guardOf(res.Session), token)
	r.fence, r.attempt = res.Fence, res.Session.Run.Attempt
	s.box.do(func() {
		s.runner = r
		s.follow()
	})
	return r
}

// Reattacher is an executor that can go on with a run whose node is gone.
type Reattacher interface {
	// Reattach finishes a run that was sent upstream by another process. wireID is
	// its upstream id, sofar all text of it that has reached clients. Only text
	// beyond that may be reported. ok is false if there is nothing to be
	// had; nothing has been reported then.
	Reattach(ctx context.Context, turn Turn, wireID, sofar string, sink Sink) (out Outcome, ok bool)
}

// pickUp goes on with a run that may have reached the upstream: re-attached if the
// executor can, else ended with what had arrived.
func (r *runner) pickUp(res store.TakeOverResult) {
	rec := res.Session.Run
	r.pickUpWith(res, func(ctx context.Context, k *sink) Outcome {
		if rec.Abort {
			r.abort(rec.Run)
			return Outcome{}
		}
		if rec.Attempt <= maxAttempts {
			if out, ok := r.reattach(ctx, k, rec); ok {
				return out
			}
		}
		return Outcome{Failed: true, Error: interruptedText}
	})
}

// pickUpFailed ends a run that another node has begun.
func (r *runner) pickUpFailed(res store.TakeOverResult, cause string) {
	r.origin.doomed = true
	r.pickUpWith(res, func(context.Context, *sink) Outcome { return Outcome{Failed: true, Error: cause} })
}

func (r *runner) pickUpWith(res store.TakeOverResult, carry func(context.Context, *sink) Outcome) {
	rec := res.Session.Run
	r.view = foldRun(res.Checkpoint, res.Entries, rec.Run)
	r.wireID, r.origin.wireID, r.origin.sent = rec.WireID, rec.WireID, rec.Phase != store.PhaseStarting
	r.launch(func() {
		r.loop(res.Item, res.Row, func(ctx context.Context, k *sink) Outcome {
			r.recall(ctx, rec)
			k.reopen(r.view.Ring())
			return carry(ctx, k)
		})
	})
}

func (r *runner) reattach(ctx context.Context, k *sink, rec store.RunRecord) (Outcome, bool) {
	_, x, err := r.e.cfg.Executors(r.item.Profile)
	if err != nil {
		return Outcome{}, false
	}
	re, ok := x.(Reattacher)
	if !ok || rec.WireID == "" {
		return Outcome{}, false
	}
	var turn Turn
	sofar := ""
	err = r.persist(ctx, func(ctx context.Context) (err error) {
		if turn, err = r.turn(ctx); err == nil {
			sofar, err = r.textSoFar(ctx)
		}
		return err
	})
	if err != nil {
		return Outcome{}, false
	}
	r.holdSlot()
	return re.Reattach(ctx, turn, rec.WireID, sofar, k)
}

// textSoFar is all text of the run that has reached clients: its rows, then what
// is open.
func (r *runner) textSoFar(ctx context.Context) (string, error) {
	head, err := r.e.head(ctx, r.s.sid)
	if err != nil {
		return "", err
	}
	_, rows, _, err := r.e.cfg.Store.Rows(ctx, r.s.sid, head.Generation, 0, historyPage, historyBytes)
	if err != nil {
		return "", err
	}
	return textOf(rows, r.item.Run) + r.view.Text(), nil
}

// reopen finds the tools that were open when the run's node died.
func (k *sink) reopen(ring []chatrun.RingEvent) {
	for _, ev := range ring {
		t, ok := chatrun.DecodeTool(ev.Data)
		if !ok {
			continue
		}
		switch ev.Event {
		case chatrun.EventToolStarted:
			k.any = true
			k.tools = append(k.tools, openTool{ToolStart: ToolStart{ID: t.ID, Name: t.Name}, started: time.Now()})
		case chatrun.EventToolCompleted:
			k.takeTool(t.ID)
		}
	}
}

package engine

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// settleTime is how long nothing begins after the store may have lost acknowledged
// writes (contract 9.4): the owners of living runs bring them back first.
const settleTime = 5 * time.Second

// settle remembers the store's generation and until when nothing may begin.
type settle struct {
	mu         sync.Mutex
	generation uint64
	until      time.Time // no run begins before
	takeOver   time.Time // no run is taken over before: the owners may only have lost touch
}

// asking is the moment in which a call to the store was issued.
type asking struct {
	at         time.Time
	generation uint64
}

func (e *Engine) ask() asking { return asking{time.Now(), e.generation()} }

// generation grows with each loss that the store may have had.
func (e *Engine) generation() uint64 {
	return e.cfg.Store.Generation()
}

// lossy reports whether the store can be away, and lose what it acknowledged.
func (e *Engine) lossy() bool { return e.generation() > 0 }

// settling reports whether nothing may begin because the store may have lost runs
// that go on. It notices a changed generation by itself.
func (e *Engine) settling() bool {
	g := e.generation()
	if g == 0 {
		return false
	}
	now := time.Now()
	e.settle.mu.Lock()
	known := e.settle.generation
	e.settle.generation = g
	switch known {
	case g:
	case 0:
		e.settle.takeOver = now.Add(settleTime)
	default:
		e.settle.until = now.Add(settleTime)
	}
	settling := now.Before(e.settle.until)
	e.settle.mu.Unlock()
	if known != 0 && known != g {
		e.log.Warn("the store may have lost writes; nothing begins until the owners of runs have spoken")
		e.cfg.Metrics.Settled()
		e.spawn(e.reaffirm)
	}
	return settling
}

// settled waits until runs may begin.
func (e *Engine) settled(ctx context.Context) error {
	for e.settling() {
		if err := pause(ctx, askAgain); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// mayBegin reports whether this node starts runs.
func (e *Engine) mayBegin() bool { return !e.isDraining() && !e.settling() }

// mayTakeOver reports whether this node takes the runs of others.
func (e *Engine) mayTakeOver() bool {
	if !e.mayBegin() {
		return false
	}
	e.settle.mu.Lock()
	defer e.settle.mu.Unlock()
	return !time.Now().Before(e.settle.takeOver)
}

// reaffirm has every owner here ask at once whether the store still knows its run,
// and looks after the endings of runs that have none behind them.
func (e *Engine) reaffirm() {
	owned := map[string]bool{}
	for _, s := range e.active() {
		s.box.do(func() {
			if s.runner != nil {
				owned[s.sid] = true
				s.runner.renewNow()
			}
		})
		e.release(s)
	}
	for _, sid := range e.kept.sessions() {
		if !owned[sid] && e.replay(sid) {
			e.arm(sid)
		}
	}
}

// lostByStore reports whether a refusal means that the store has lost the run, not
// that somebody else has it. generation is that of the last acknowledged call.
func (e *Engine) lostByStore(res store.OwnerResult, generation uint64) bool {
	switch res.Code {
	case store.Lost, store.Back:
		return e.lossy()
	case store.Fenced, store.Ended:
		known := res.State != "" && res.State.Ended()
		return e.generation() != generation && !known
	default:
		return false
	}
}

package engine

import (
	"context"
)

// Drain ends the work of this node: no run starts any more, running ones may end
// by themselves until ctx ends and then fail with their text kept. Waiting
// messages stay in the store for whoever comes next. Where other nodes share the
// store, runs that those can go on with are left to them.
func (e *Engine) Drain(ctx context.Context) {
	e.mu.Lock()
	if !e.draining {
		e.draining = true
		close(e.leaving)
	}
	e.mu.Unlock()
	e.detachAll(false)
	if e.awaitRuns(ctx) {
		return
	}
	e.detachAll(true)
	for _, s := range e.active() {
		s.box.do(func() {
			if s.runner != nil {
				s.runner.cancel(errRestarting)
			}
		})
		e.release(s)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	e.awaitRuns(last)
}

// active answers the sessions with an actor, each held for the caller.
func (e *Engine) active() []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*session, 0, len(e.sessions))
	for _, s := range e.sessions {
		s.refs++
		out = append(out, s)
	}
	return out
}

// awaitRuns waits until no run is left on this node.
func (e *Engine) awaitRuns(ctx context.Context) bool {
	done := make(chan struct{})
	e.mu.Lock()
	if len(e.userRuns) == 0 {
		close(done)
	} else {
		e.quiet = append(e.quiet, done)
	}
	e.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Close stops everything at once and waits for it; a Drain should come before.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	if !e.draining {
		e.draining = true
		close(e.leaving)
	}
	e.mu.Unlock()
	e.cancel()
	e.wg.Wait()
	for _, s := range e.active() {
		s.box.do(s.shut)
		e.release(s)
	}
}

package engine

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Hints of a shared store may be lost; the heads of followed sessions are looked at
// all the same (contract 1.10, 5.8).
const (
	pollLive  = 2 * time.Second  // of sessions with an active run
	pollIdle  = 30 * time.Second // of the others
	pollBatch = 256              // heads asked for at once
)

// pollLoop looks at the heads of the sessions that are followed here: at all of them
// also when the store may have lost writes.
func (e *Engine) pollLoop() {
	tick := time.NewTicker(pollLive)
	defer tick.Stop()
	idle, generation := time.Now(), e.generation()
	for {
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return
		}
		now := e.generation()
		all := time.Since(idle) >= pollIdle || now != generation
		if e.poll(all) && all {
			idle, generation = time.Now(), now
		}
	}
}

// poll wakes the tails that do not stand at the head of their log. It reports whether
// all heads could be read.
func (e *Engine) poll(all bool) (done bool) {
	done = true
	var held []*session
	for _, s := range e.active() {
		if s.watched.Load() > 0 && (all || s.live.Load()) && !s.appending.Load() {
			held = append(held, s)
		} else {
			e.release(s)
		}
	}
	for len(held) > 0 {
		n := min(len(held), pollBatch)
		if err := e.pollSome(held[:n]); err != nil && e.ctx.Err() == nil {
			done = false
			e.log.Debug("heads not readable; the next look tries again", zap.Error(err))
		}
		held = held[n:]
	}
	return done
}

func (e *Engine) pollSome(held []*session) error {
	sids, at := make([]string, len(held)), make([]int64, len(held))
	for i, s := range held {
		sids[i], at[i] = s.sid, s.delivered.Load()
	}
	ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
	defer cancel()
	heads, err := e.cfg.Store.Head(ctx, sids...)
	for i, s := range held {
		// A tail that has moved meanwhile needs nobody to wake it.
		if i < len(heads) && s.delivered.Load() == at[i] {
			s.look(ctx, heads[i])
		}
		e.release(s)
	}
	return err
}

// look follows the log if its head is not where the tail stands, and takes over what
// has lost its owner.
func (s *session) look(ctx context.Context, head store.Session) {
	s.visit(func() {
		if s.open && (head.Incarnation != s.ep || s.ep != "" && head.Head != s.pos) {
			s.follow()
		}
	})
	if !s.e.mayTakeOver() {
		return
	}
	if err := s.takeOverIfOrphan(ctx, head); err != nil {
		s.logger().Debug("orphan not taken over; the sweep finds it", zap.Error(err))
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times of the wait for a place at a gateway (contract 5.2.1).
const (
	slotLook = 500 * time.Millisecond // how often a run that waits asks
	slotNews = 5 * time.Second        // how often it shows that its place has changed
	slotWait = 10 * time.Minute       // how long it waits
)

const textNoSlot = "The Hermes gateway is busy with other chats; send the message again later"

var errNoSlot = errors.New("no place at the gateway came free")

// slot is a run's place at its gateway among those of all nodes. The writer's keeper
// prolongs it.
type slot struct {
	gateway string
	limit   int

	mu    sync.Mutex
	asked time.Time
}

// slotOf answers the place that a run of the profile needs, nil if there is no limit.
func (e *Engine) slotOf(profile string) *slot {
	if e.cfg.Slots == nil {
		return nil
	}
	gateway, limit := e.cfg.Slots(profile)
	if limit <= 0 {
		return nil
	}
	return &slot{gateway: gateway, limit: limit}
}

// ask takes the place, keeps it, or stays in line for it: 0 is the place itself.
func (r *runner) ask(ctx context.Context, s *slot) (place int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s.mu.Lock()
	s.asked = time.Now()
	s.mu.Unlock()
	res, err := r.e.cfg.Store.TakeSlot(ctx, s.gateway, r.item.Run, s.limit, store.LeaseTTL)
	if err != nil || res.Code == store.OK {
		return 0, err
	}
	return max(res.Place, 1), nil
}

// takeSlot waits, visibly, for the run's place at its gateway. A store that is away
// is waited for: no run goes past the line.
func (r *runner) takeSlot(ctx context.Context, k *sink) error {
	s := r.e.slotOf(r.item.Profile)
	if s == nil {
		return nil
	}
	r.slot.Store(s)
	ctx, cancel := context.WithTimeoutCause(ctx, slotWait, errNoSlot)
	defer cancel()
	waiting, shown, told := false, 0, time.Time{}
	for {
		freed := r.e.slots.next()
		place, err := r.ask(ctx, s)
		if err == nil && place == 0 {
			return nil
		}
		if !waiting {
			waiting = true
			r.e.cfg.Metrics.SlotWait(1)
			defer r.e.cfg.Metrics.SlotWait(-1)
		}
		if err == nil && place != shown && time.Since(told) >= slotNews {
			shown, told = place, time.Now()
			k.Notice("waiting", fmt.Sprintf("The Hermes gateway is busy; this message waits for its turn (place %d)", place))
		}
		timer := time.NewTimer(slotLook)
		select {
		case <-timer.C:
		case <-freed:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// holdSlot counts a run that works upstream already; nothing waits for it.
func (r *runner) holdSlot() {
	if s := r.e.slotOf(r.item.Profile); s != nil {
		r.slot.Store(s) // the keeper asks
	}
}

// prolongSlot asks again in time.
func (r *runner) prolongSlot() {
	s := r.slot.Load()
	if s == nil {
		return
	}
	s.mu.Lock()
	due := age(s.asked) >= freshFor
	s.mu.Unlock()
	if due {
		_, _ = r.ask(r.e.ctx, s) // the next tick tries again
	}
}

// freeSlot gives the place back. One that the store does not hear of falls out by
// itself.
func (r *runner) freeSlot() {
	s := r.slot.Swap(nil)
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.e.ctx), callTimeout)
	defer cancel()
	if err := r.e.cfg.Store.FreeSlot(ctx, s.gateway, r.item.Run); err != nil {
		r.s.logger().Debug("place at the gateway not given back; it runs out", zap.Error(err))
	}
	r.e.slots.freed()
}

// slotNotices wakes the runs of this node that wait for a place.
type slotNotices struct {
	mu sync.Mutex
	ch chan struct{}
}

// next answers a channel that is closed when the next place comes free here.
func (n *slotNotices) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch == nil {
		n.ch = make(chan struct{})
	}
	return n.ch
}

func (n *slotNotices) freed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ch != nil {
		close(n.ch)
		n.ch = nil
	}
}

package memory

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// slots are the places of all gateways. A gateway of which nobody holds or wants
// a place is forgotten.
type slots struct {
	mu       sync.Mutex
	gateways map[string]*places
}

// places are those of one gateway: who has one, and who waits in the order of
// first asking. Both are bounded by the runs that ask within their time.
type places struct {
	until   map[string]int64 // when a holder or waiter falls out
	waiting []string
}

// TakeSlot implements store.Slots.
func (st *Store) TakeSlot(_ context.Context, gateway, run string, limit int, ttl time.Duration) (store.SlotResult, error) {
	if err := st.open(); err != nil {
		return store.SlotResult{}, err
	}
	x, now := &st.slots, st.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.gateways[gateway]
	if p == nil {
		p = &places{until: make(map[string]int64)}
		x.gateways[gateway] = p
	}
	p.expire(now)
	_, known := p.until[run]
	p.until[run] = now + max(1, ttl.Milliseconds())
	if !known {
		p.waiting = append(p.waiting, run)
	}
	place := p.place(run)
	if place == 0 {
		return store.SlotResult{Code: store.OK}, nil
	}
	if free := limit - (len(p.until) - len(p.waiting)); place > free {
		return store.SlotResult{Code: store.Waiting, Place: place}, nil
	}
	p.leave(run)
	return store.SlotResult{Code: store.OK}, nil
}

// FreeSlot implements store.Slots.
func (st *Store) FreeSlot(_ context.Context, gateway, run string) error {
	if err := st.open(); err != nil {
		return err
	}
	x, now := &st.slots, st.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.gateways[gateway]
	if p == nil {
		return nil
	}
	p.remove(run)
	p.expire(now)
	if len(p.until) == 0 {
		delete(x.gateways, gateway)
	}
	return nil
}

func (p *places) expire(now int64) {
	for run, until := range p.until {
		if until <= now {
			p.remove(run)
		}
	}
}

func (p *places) remove(run string) {
	delete(p.until, run)
	p.leave(run)
}

// leave takes a run out of those that wait.
func (p *places) leave(run string) {
	if i := p.place(run); i > 0 {
		p.waiting = append(p.waiting[:i-1], p.waiting[i:]...)
	}
}

// place is the place of a run among those that wait, from 1; 0: it does not.
func (p *places) place(run string) int {
	for i, r := range p.waiting {
		if r == run {
			return i + 1
		}
	}
	return 0
}

package memory

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// commit ends a turn: the change is stored if it has to be, applied, and
// announced. With ErrUnknown the change is still under way and keeps the turn
// until its fate is known.
func (st *Store) commit(ctx context.Context, ch *change) error {
	s := ch.s
	if ch.level == unchanged {
		st.release(s)
		return nil
	}
	if st.opts.Journal == nil || ch.level != durable {
		st.settle(ch)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, st.opts.CallLimit)
	defer cancel()
	done, caller := make(chan error, 1), ch.caller
	d := ch.delta()
	st.opts.Journal.Commit(d, ch.patient, func(err error) { done <- st.stored(ch, d, err) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		if caller != nil && !caller.CompareAndSwap(callerWaits, callerGone) {
			return <-done
		}
		return fmt.Errorf("%w: commit under way: %w", store.ErrUnknown, context.Cause(ctx))
	}
}

// What has become of the caller of a change that matters to nobody else: a
// tenure won for a caller that has given up would have no holder, and in a
// single process no end either.
const (
	callerWaits int32 = iota
	callerGone
	callerAnswered
)

// wonForCaller makes the change void the tenure if its caller gives up before it is
// stored. With leases that expire that is not needed.
func (ch *change) wonForCaller() {
	if ch.st.opts.SingleProcess {
		ch.caller = new(atomic.Int32)
	}
}

// stored ends the turn of a durable change.
func (st *Store) stored(ch *change, d *Delta, err error) error {
	s := ch.s
	if err != nil && ch.degrade == nil {
		st.release(s)
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	s.mu.Lock()
	if err != nil {
		s.dirty.full, s.dirty.since = true, ch.now
		s.dirty.revision++
	} else {
		s.rows, s.logged = nil, d.logged
		s.dirty = pending{revision: s.dirty.revision, stored: s.dirty.revision}
	}
	s.mu.Unlock()
	if err != nil {
		ch.degrade(ch)
		s.mu.Lock()
		s.dirty.wipe = s.dirty.wipe || ch.wipe
		s.mu.Unlock()
		st.fellBehind(s)
		st.settle(ch)
		return nil
	}
	st.caughtUp(s)
	if ch.caller != nil && !ch.caller.CompareAndSwap(callerWaits, callerAnswered) {
		ch.vacate()
	}
	ch.level = volatile
	ch.rows = nil
	st.settle(ch)
	return nil
}

// settle applies and announces a change and ends the turn.
func (st *Store) settle(ch *change) {
	s := ch.s
	ch.apply()
	if ch.level == soon && st.opts.Journal != nil {
		s.mu.Lock()
		known := s.dirty.any()
		if !known {
			s.dirty.since = ch.now
		}
		s.dirty.revision++
		s.dirty.root = s.dirty.root || !ch.logOnly
		s.dirty.checkpoint = s.dirty.checkpoint || ch.folded
		s.mu.Unlock()
		if !known {
			st.fellBehind(s)
		}
	}
	ch.announce()
	st.release(s)
}

// announce tells the subscribers. The turn makes it one hint at a time.
func (ch *change) announce() {
	if len(ch.log) == 0 && !ch.hint.Deleted {
		return
	}
	ch.s.mu.RLock()
	defer ch.s.mu.RUnlock()
	ch.hint.Incarnation, ch.hint.Head = ch.next.Incarnation, ch.next.Head
	for sub := range ch.s.subs {
		sub.notify(ch.hint)
	}
}

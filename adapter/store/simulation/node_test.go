package simulation

import (
	"errors"
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// node is one process of the edge.
type node struct {
	w        *world
	id       string
	epoch    int // a process that died gets no event of its past
	alive    bool
	draining bool
	paused   int64
	cut      int64
	runs     []*run
}

func (n *node) boot() {
	n.epoch++
	n.alive, n.draining, n.runs = true, false, nil
	n.after(n.w.upTo(1000), n.sweep)
}

func (n *node) kill(down int64) {
	if !n.alive {
		return
	}
	n.alive = false
	n.epoch++
	n.runs = nil
	n.w.after(down, n.boot)
}

// after schedules a step of this process: not at all if it has died by then,
// and not while it is paused.
func (n *node) after(delay int64, do func()) {
	epoch := n.epoch
	var step func()
	step = func() {
		switch {
		case n.epoch != epoch:
		case n.paused > n.w.now:
			n.w.after(n.paused-n.w.now, step)
		default:
			do()
		}
	}
	n.w.after(delay, step)
}

func (n *node) token() string { return n.w.name(fmt.Sprintf("%s/%d/", n.id, n.epoch)) }

// call sends a request to the store. It may be lost, executed late, executed
// twice, or its answer lost; then answers ErrUnknown after the call's limit.
func call[T any](n *node, do func() (T, error), then func(T, error)) {
	w, answered := n.w, false
	answer := func(v T, err error) {
		if !answered {
			answered = true
			then(v, err)
		}
	}
	execute := func() (T, error) {
		v, err := do()
		w.audit()
		return v, err
	}
	n.after(callLimit, func() {
		var zero T
		answer(zero, store.ErrUnknown)
	})
	deliver := func() {
		v, err := execute()
		if n.cut <= w.now || w.calm {
			n.after(w.upTo(15), func() { answer(v, err) })
		}
	}
	switch f := w.rng.IntN(100); {
	case !w.calm && n.cut > w.now, !w.calm && f < 4: // lost
	case !w.calm && f < 8: // late, the connection long closed
		w.after(w.upTo(longestLag), func() { _, _ = execute() })
	case !w.calm && f < 12: // answer lost
		w.after(w.upTo(15), func() { _, _ = execute() })
	case !w.calm && f < 14: // sent twice
		w.after(w.upTo(15), deliver)
		w.after(w.upTo(longestLag), func() { _, _ = execute() })
	default:
		w.after(w.upTo(15), deliver)
	}
}

// insist repeats a call while its outcome is unknown and the time is not over
// (0: without end), then hands over the answer or ErrUnknown.
func insist[T any](n *node, until int64, do func() (T, error), then func(T, error)) {
	call(n, do, func(v T, err error) {
		pause := 50 + n.w.upTo(250)
		if errors.Is(err, store.ErrUnknown) && (until == 0 || n.w.now+pause < until) {
			n.after(pause, func() { insist(n, until, do, then) })
			return
		}
		then(v, err)
	})
}

// arm is flow 5.11; what follows happens only if it was acknowledged.
func (n *node) arm(sid string, delay, until int64, then, failed func()) {
	insist(n, until, func() (struct{}, error) { return struct{}{}, n.w.store.Arm(background, sid, ms(delay)) },
		func(_ struct{}, err error) {
			if err != nil {
				failed()
				return
			}
			then()
		})
}

func ignore() {}

// sweep is the loop of flow 5.11.
func (n *node) sweep() {
	n.after(1000+n.w.upTo(1000), n.sweep)
	if n.draining {
		return
	}
	call(n, func() ([]store.Due, error) { return n.w.store.Due(background, 8) }, func(due []store.Due, err error) {
		for _, d := range due {
			n.takeOver(d.SID, func(res store.TakeOverResult) { n.rescore(d, res) })
		}
	})
}

func (n *node) rescore(d store.Due, res store.TakeOverResult) {
	delay, parked := int64(leaseTTL), false
	switch res.Code {
	case store.Held:
		delay = res.Remaining.Milliseconds()
	case store.Idle:
		if d.Parked || n.w.without == park {
			call(n, func() (struct{}, error) { return struct{}{}, n.w.store.Disarm(background, d) }, func(struct{}, error) {})
			return
		}
		delay, parked = store.ParkTime.Milliseconds(), true
	}
	call(n, func() (struct{}, error) {
		return struct{}{}, n.w.store.Rescore(background, d, ms(delay), parked)
	}, func(struct{}, error) {})
}

// takeOver is flow 5.6 from its TakeOver on.
func (n *node) takeOver(sid string, then func(store.TakeOverResult)) {
	if n.draining {
		return
	}
	args := store.TakeOverArgs{SID: sid, Token: n.token(), Node: n.id, TTL: ms(leaseTTL)}
	issued := n.w.now
	insist(n, n.w.now+3*callLimit, func() (store.TakeOverResult, error) { return n.w.store.TakeOver(background, args) },
		func(res store.TakeOverResult, err error) {
			if err != nil {
				return
			}
			then(res)
			if res.Code != store.Resumed && res.Code != store.Next {
				return
			}
			r := n.adopt(sid, args.Token, *res.Item)
			r.acked = issued
			r.abort = res.Session.Run.Abort
			switch {
			case res.Code == store.Next || res.Rerun:
				r.begin()
			case r.abort:
				r.finish(store.StateAborted)
			default:
				r.finish(store.StateFailed)
			}
		})
}

// rescue takes over a session that was met without a live owner.
func (n *node) rescue(sid string) {
	if n.draining {
		n.arm(sid, 0, 0, ignore, ignore)
		return
	}
	n.arm(sid, leaseTTL, n.w.now+budget, func() { n.takeOver(sid, func(store.TakeOverResult) {}) }, ignore)
}

// requestAbort is flow 5.5.
func (n *node) requestAbort(sid, runKey string) {
	entry := store.NewEntry{Name: "abort.started"}
	insist(n, n.w.now+10_000, func() (store.AbortResult, error) {
		return n.w.store.RequestAbort(background, sid, guard, runKey, "", entry)
	}, func(res store.AbortResult, err error) {
		if err != nil || (res.Code != store.OK && res.Code != store.Already) {
			return
		}
		for _, r := range n.runs {
			if r.key == runKey {
				r.told(true)
			}
		}
		if !res.Alive {
			n.rescue(sid)
		}
	})
}

// drain is flow 5.7: after the grace period the process ends and comes back.
func (n *node) drain() {
	if n.draining || !n.alive {
		return
	}
	n.draining = true
	n.after(10_000, func() {
		for _, r := range n.runs {
			r.giveUp()
		}
	})
	n.after(14_000, func() { n.kill(n.w.upTo(5000)) })
}

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

	known        uint64 // generation of the store
	settled      int64  // nothing begins before
	takeOverFrom int64
	kept         []kept
}

func (n *node) boot() {
	n.epoch++
	n.alive, n.draining, n.runs = true, false, nil
	n.kept, n.known, n.settled, n.takeOverFrom = nil, n.w.mem.Generation(), 0, n.w.now+settleTime
	n.after(n.w.upTo(1000), n.sweep)
	n.after(n.w.upTo(1000), n.watchGeneration)
}

func (n *node) kill(down int64) {
	if !n.alive {
		return
	}
	n.alive = false
	n.epoch++
	n.runs, n.kept = nil, nil
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

// call sends a request to the store. The first one to another server process makes
// the node notice; what was on its way to the one before goes nowhere. It may be lost, executed late, executed
// twice, or its answer lost; then answers ErrUnknown after the call's limit.
func call[T any](n *node, do func() (T, error), then func(T, error)) {
	w, answered := n.w, false
	answer := func(v T, err error) {
		if !answered {
			answered = true
			then(v, err)
		}
	}
	n.look()
	process := w.mem.Generation()
	execute := func() (T, error) {
		if w.mem.Generation() != process {
			var zero T
			return zero, errGone
		}
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
		if errors.Is(err, errGone) {
			return
		}
		if n.cut <= w.now || w.calm {
			n.after(w.upTo(15), func() { answer(v, err) })
		}
	}
	stormy := !w.calm && w.now >= w.quietUntil
	switch f := w.rng.IntN(100); {
	case !w.calm && n.cut > w.now, stormy && f < 4: // lost
	case stormy && f < 8: // late, the connection long closed
		w.after(w.upTo(longestLag), func() { _, _ = execute() })
	case stormy && f < 12: // answer lost
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
	offer(n, until, func() func() (T, error) { return do }, then)
}

// offer is insist with a request that is made anew for each try.
func offer[T any](n *node, until int64, request func() func() (T, error), then func(T, error)) {
	call(n, request(), func(v T, err error) {
		pause := 50 + n.w.upTo(250)
		if unknown(err) && (until == 0 || n.w.now+pause < until) {
			n.after(pause, func() { offer(n, until, request, then) })
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

// errGone: the server process to which a request was sent is not there any more.
var errGone = errors.New("gone")

// sameProcess is a request that a server process refuses which the node did not
// know when it decided: it may not begin anything there before it has settled.
func sameProcess[T any](n *node, do func() (T, error)) func() (T, error) {
	known := n.known
	return func() (T, error) {
		if n.w.mem.Generation() != known && n.w.without != settle {
			var zero T
			return zero, errGone
		}
		return do()
	}
}

func ignore() {}

// sweep is the loop of flow 5.11.
func (n *node) sweep() {
	n.after(1000+n.w.upTo(1000), n.sweep)
	if !n.mayTakeOver() {
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
	n.claim(store.TakeOverArgs{SID: sid, Token: n.token(), Node: n.id, TTL: ms(leaseTTL)}, n.w.now+3*callLimit, then)
}

func (n *node) claim(args store.TakeOverArgs, until int64, then func(store.TakeOverResult)) {
	if !n.mayTakeOver() {
		return
	}
	sid, issued, known := args.SID, n.w.now, n.known
	call(n, sameProcess(n, func() (store.TakeOverResult, error) { return n.w.store.TakeOver(background, args) }),
		func(res store.TakeOverResult, err error) {
			if unknown(err) {
				n.after(200, func() {
					if n.w.now < until {
						n.claim(args, until, then)
					}
				})
				return
			}
			then(res)
			if res.Code != store.Resumed && res.Code != store.Next {
				return
			}
			r := n.adopt(sid, args.Token, *res.Item)
			r.acked, r.generation = issued, known
			r.fence, r.attempt, r.phase = res.Fence, res.Session.Run.Attempt, res.Session.Run.Phase
			r.rows = []store.NewRow{res.Row.NewRow}
			if stored := n.w.rowsOf(sid, r.key); len(stored) > 1 {
				r.rows = append(r.rows, stored[1:]...)
			}
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
	if !n.mayTakeOver() {
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

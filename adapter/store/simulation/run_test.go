package simulation

import (
	"errors"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// run is what a node knows of a run that it owns, or believes it owns.
type run struct {
	n      *node
	sid    string
	token  string
	key    string
	qid    string
	seq    int64
	acked  int64 // when the last acknowledged Append or Renew was issued
	outbox []store.Batch
	busy   bool // a batch or the end is under way
	posted bool
	abort  bool
	over   bool // upstream has no more to say
	ending bool
	left   bool
}

// adopt makes the node the owner of a run.
func (n *node) adopt(sid, token string, item store.Item) *run {
	r := &run{n: n, sid: sid, token: token, key: item.Run, qid: item.QID, acked: n.w.now}
	n.runs = append(n.runs, r)
	n.after(1000, r.keepAlive)
	return r
}

func (r *run) leave() {
	r.left = true
	for i, other := range r.n.runs {
		if other == r {
			r.n.runs = append(r.n.runs[:i:i], r.n.runs[i+1:]...)
			return
		}
	}
}

// told takes note of an abort that an answer or the node itself tells of.
func (r *run) told(abort bool) {
	if !abort || r.abort || r.left {
		return
	}
	r.abort = true
	if r.posted {
		r.over = true
		r.pump()
	}
}

func (r *run) batch(names ...string) store.Batch {
	b := store.Batch{SID: r.sid, Token: r.token, Run: r.key, Stamp: r.n.w.name("z"), TTL: ms(leaseTTL)}
	for _, name := range names {
		e := store.NewEntry{Kind: store.KindEvent, Name: name, Payload: []byte(r.key)}
		if name == "run.started" {
			e.Kind = store.KindStarted
		}
		b.Events = append(b.Events, e)
	}
	return b
}

// begin is flow 5.2.
func (r *run) begin() {
	if r.abort {
		r.finish(store.StateAborted)
		return
	}
	if r.n.w.without == writeAhead {
		r.post()
		return
	}
	b := r.batch()
	b.Patch.Phase = store.PhaseSent
	issued := r.n.w.now
	r.append(b, func() {
		switch {
		case r.abort:
			r.finish(store.StateAborted)
		case r.n.w.now-issued > leaseTTL/3:
			r.renew(func() {
				if r.abort {
					r.finish(store.StateAborted)
					return
				}
				r.post()
			})
		default:
			r.post()
		}
	})
}

// post calls the upstream, which begins to answer.
func (r *run) post() {
	r.posted = true
	w := r.n.w
	w.called(r.key, r.qid)
	at := w.upTo(500)
	r.n.after(at, func() {
		b := r.batch("run.started")
		b.Patch.Phase = store.PhaseRunning
		r.out(b)
	})
	pace := int64(1500)
	if w.chance(10) {
		pace = 15_000
	}
	for range w.rng.IntN(5) {
		at += w.upTo(pace)
		r.n.after(at, func() { r.out(r.batch("message.delta")) })
	}
	r.n.after(at+w.upTo(1500), func() {
		r.over = true
		r.pump()
	})
}

func (r *run) out(b store.Batch) {
	if r.left || r.over {
		return
	}
	r.outbox = append(r.outbox, b)
	r.pump()
}

// pump is flow 5.3: one batch at a time; the end follows the last one.
func (r *run) pump() {
	switch {
	case r.left || r.busy || r.ending:
	case len(r.outbox) > 0:
		b := r.outbox[0]
		r.outbox = r.outbox[1:]
		r.append(b, r.pump)
	case r.over && r.abort:
		r.finish(store.StateAborted)
	case r.over:
		r.finish(store.StateCompleted)
	}
}

// append sends a batch until it is answered.
func (r *run) append(b store.Batch, then func()) {
	b.Seq = r.seq + 1
	r.busy = true
	issued := r.n.w.now
	insist(r.n, 0, func() (store.OwnerResult, error) {
		issued = r.n.w.now
		return r.n.w.store.Append(background, b)
	}, func(res store.OwnerResult, err error) {
		if r.left {
			return
		}
		r.busy = false
		if res.Code != store.OK && res.Code != store.Dup {
			r.leave()
			return
		}
		r.seq, r.acked = b.Seq, issued
		r.abort = r.abort || res.Abort
		if r.abort && r.posted {
			r.over = true
		}
		then()
	})
}

// renew prolongs the lease, or leaves.
func (r *run) renew(then func()) {
	issued := r.n.w.now
	r.n.arm(r.sid, leaseTTL, r.n.w.now+callLimit, func() {
		call(r.n, func() (store.OwnerResult, error) {
			return r.n.w.store.Renew(background, r.sid, r.token, r.key, r.seq, ms(leaseTTL))
		}, func(res store.OwnerResult, err error) {
			switch {
			case r.left:
			case errors.Is(err, store.ErrUnknown):
				r.n.after(200, func() { r.renew(then) })
			case res.Code != store.OK:
				r.leave()
			default:
				r.acked = issued
				r.told(res.Abort)
				then()
			}
		})
	}, func() { r.n.after(200, func() { r.renew(then) }) })
}

func (r *run) keepAlive() {
	switch {
	case r.left:
	case r.n.w.now-r.acked >= leaseTTL/3 && !r.busy && !r.ending:
		r.renew(func() { r.n.after(1000, r.keepAlive) })
	default:
		r.n.after(1000, r.keepAlive)
	}
}

// finish is flow 5.4.
func (r *run) finish(outcome store.State) {
	if r.left || r.ending {
		return
	}
	r.ending = true
	a := store.FinishArgs{Batch: r.batch(), Outcome: outcome, End: store.NewEntry{Name: "run." + string(outcome)}, Node: r.n.id}
	a.Seq = r.seq + 1
	if !r.n.draining {
		a.Pop = []string{""}
	}
	insist(r.n, 0, func() (store.FinishResult, error) { return r.n.w.store.Finish(background, a) },
		func(res store.FinishResult, err error) { r.finished(a, res) })
}

func (r *run) finished(a store.FinishArgs, res store.FinishResult) {
	if r.left {
		return
	}
	switch res.Code {
	case store.Aborting:
		r.ending, r.abort = false, true
		r.finish(store.StateAborted)
	case store.Next:
		r.leave()
		next := r.n.adopt(r.sid, r.token, *res.Item)
		next.seq = a.Seq
		next.begin()
	case store.Waiting:
		r.leave()
		r.n.arm(r.sid, 0, 0, ignore, ignore)
	case store.Bad:
		r.n.w.violate("Finish(%s) of %s makes no sense to the store", a.Outcome, r.key)
	default:
		r.leave()
	}
}

// giveUp is flow 5.7 for a run that outlives the grace period.
func (r *run) giveUp() {
	switch {
	case r.left || r.ending:
	case r.busy || r.n.w.chance(50):
		r.leave()
		insist(r.n, 0, func() (store.OwnerResult, error) {
			return r.n.w.store.Release(background, r.sid, r.token, r.key, r.seq, nil)
		}, func(store.OwnerResult, error) { r.n.arm(r.sid, 0, 0, ignore, ignore) })
	case r.abort:
		r.finish(store.StateAborted)
	default:
		r.over = true
		r.outbox = nil
		r.finish(store.StateFailed)
	}
}

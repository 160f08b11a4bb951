package simulation

import (
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// run is what a node knows of a run that it owns, or believes it owns.
type run struct {
	n          *node
	sid        string
	token      string
	key        string
	qid        string
	item       store.Item
	phase      store.Phase
	rows       []store.NewRow // stored, the user row first
	fence      int64
	attempt    int
	seq        int64
	acked      int64  // when the last acknowledged Append or Renew was issued
	generation uint64 // of the store when that was
	outbox     []store.Batch
	busy       bool // a batch or the end is under way
	posted     bool
	abort      bool
	over       bool // upstream has no more to say
	ending     bool
	left       bool
}

// adopt makes the node the owner of a run.
func (n *node) adopt(sid, token string, item store.Item) *run {
	n.w.owners[item.QID] = owner{n, n.epoch}
	return n.claimed(sid, token, item)
}

// claimed makes the node believe that it owns a run; the next answer tells.
func (n *node) claimed(sid, token string, item store.Item) *run {
	r := &run{
		n: n, sid: sid, token: token, key: item.Run, qid: item.QID, item: item, phase: store.PhaseStarting,
		rows: []store.NewRow{item.Row}, acked: n.w.now, generation: n.known,
	}
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

// begin is flow 5.2. While the node settles nothing is sent: a later owner of the
// run may have been lost by the store and come back.
func (r *run) begin() {
	switch {
	case r.left:
		return
	case r.abort:
		r.finish(store.StateAborted)
		return
	case r.n.settling():
		r.n.after(r.n.settled-r.n.w.now, func() { r.renew(r.begin) })
		return
	case r.n.w.without == writeAhead:
		r.post()
		return
	}
	b := r.batch()
	b.Patch.Phase = store.PhaseSent
	issued, known := r.n.w.now, r.n.known
	r.append(b, func() {
		switch {
		case r.abort:
			r.finish(store.StateAborted)
		case r.n.w.now-issued > leaseTTL/3 || r.n.known != known:
			r.renew(r.send)
		default:
			r.post()
		}
	})
}

func (r *run) send() {
	if r.abort {
		r.finish(store.StateAborted)
		return
	}
	r.post()
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
		r.n.after(at, func() {
			b := r.batch("message.delta")
			if w.chance(30) {
				b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte(b.Stamp)}}
			}
			r.out(b)
		})
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
	b.Seq, r.busy = r.seq+1, true
	issued, known := r.n.w.now, r.n.known
	call(r.n, func() (store.OwnerResult, error) { return r.n.w.store.Append(background, b) },
		func(res store.OwnerResult, err error) {
			switch {
			case r.left:
			case unknown(err):
				r.n.after(50+r.n.w.upTo(250), func() { r.appendAgain(b, known, then) })
			case r.lostByStore(res):
				r.bringBack(func() { r.appendAgain(b, 0, then) })
			case res.Code != store.OK && res.Code != store.Dup:
				r.leave()
			default:
				r.busy = false
				r.seq, r.acked, r.generation = b.Seq, issued, known
				r.stored(b, res.Abort)
				then()
			}
		})
}

// appendAgain repeats a batch. If the store may have lost it, a log that is lost
// may have had it under its stamp, and so it gets another one; and what would call
// the upstream waits.
func (r *run) appendAgain(b store.Batch, known uint64, then func()) {
	if r.left {
		return
	}
	if known != r.n.known {
		b.Stamp = r.n.w.name("z")
	}
	if b.Patch.Phase == store.PhaseSent && r.n.settling() {
		r.busy = false
		r.begin()
		return
	}
	r.append(b, then)
}

// stored takes note of a batch that is acknowledged.
func (r *run) stored(b store.Batch, abort bool) {
	r.n.w.owners[r.qid] = owner{r.n, r.n.epoch}
	r.rows = append(r.rows, b.Rows...)
	if b.Patch.Phase != "" {
		r.phase = b.Patch.Phase
	}
	r.abort = r.abort || abort
	if r.abort && r.posted {
		r.over = true
	}
}

// renew prolongs the lease, or leaves.
func (r *run) renew(then func()) {
	issued, known := r.n.w.now, r.n.known
	r.n.arm(r.sid, leaseTTL, r.n.w.now+callLimit, func() {
		issued, known = r.n.w.now, r.n.known
		call(r.n, func() (store.OwnerResult, error) {
			return r.n.w.store.Renew(background, r.sid, r.token, r.key, r.seq, ms(leaseTTL))
		}, func(res store.OwnerResult, err error) {
			switch {
			case r.left:
			case unknown(err):
				r.n.after(200, func() { r.renew(then) })
			case r.busy || r.ending: // that call tells
				then()
			case r.lostByStore(res):
				r.bringBack(func() {
					then()
					r.pump()
				})
			case res.Code != store.OK:
				r.leave()
			default:
				r.acked, r.generation = issued, known
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
	a.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte(r.key)}}
	known := r.n.known
	offer(r.n, 0, func() func() (store.FinishResult, error) {
		a.Pop = nil
		if r.n.mayBegin() {
			a.Pop = []string{""}
		}
		if known != r.n.known {
			a.Stamp, known = r.n.w.name("z"), r.n.known
		}
		sent := a
		do := func() (store.FinishResult, error) { return r.n.w.store.Finish(background, sent) }
		if sent.Pop == nil {
			return do
		}
		return sameProcess(r.n, do)
	}, func(res store.FinishResult, err error) { r.finished(a, res) })
}

func (r *run) finished(a store.FinishArgs, res store.FinishResult) {
	if r.left {
		return
	}
	if r.lostByStore(res.OwnerResult) {
		r.bringBack(func() {
			r.ending = false
			r.finish(a.Outcome)
		})
		return
	}
	switch res.Code {
	case store.Idle, store.Next, store.Waiting:
		a.Pop = nil
		r.n.keep(kept{args: a, run: r.account(a.Seq-1, r.rows)})
	}
	switch res.Code {
	case store.Aborting:
		r.ending, r.abort = false, true
		r.finish(store.StateAborted)
	case store.Next:
		r.leave()
		next := r.n.adopt(r.sid, r.token, *res.Item)
		next.seq, next.fence, next.generation = a.Seq, r.fence, r.generation
		next.begin()
	case store.Waiting:
		r.leave()
		r.n.arm(r.sid, 0, 0, ignore, ignore)
	case store.Bad:
		if r.n.w.falls > 0 && r.abort {
			r.n.abortAgain(r.sid, r.key, func() {
				r.ending = false
				r.finish(a.Outcome)
			})
			return
		}
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

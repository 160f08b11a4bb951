package simulation

import (
	"errors"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times of flow 9.4.
const (
	settleTime = 5_000
	keepFor    = 60_000
)

// kept is an ending that the store has acknowledged and may yet lose.
type kept struct {
	until int64
	args  store.FinishArgs
	run   store.ReinstateArgs
}

// look notices another generation of the store: the node settles, and its owners
// ask at once whether the store still knows their runs.
func (n *node) look() {
	g := n.w.mem.Generation()
	if n.known == g {
		return
	}
	n.known = g
	n.settled = n.w.now + settleTime
	n.after(0, n.reaffirm)
}

// watchGeneration is the look of once a second.
func (n *node) watchGeneration() {
	n.after(1000, n.watchGeneration)
	n.look()
}

func (n *node) settling() bool { return n.w.now < n.settled && n.w.without != settle }

func (n *node) mayBegin() bool { return !n.draining && !n.settling() }

func (n *node) mayTakeOver() bool { return n.mayBegin() && n.w.now >= n.takeOverFrom }

func (n *node) reaffirm() {
	owned := map[string]bool{}
	for _, r := range n.runs {
		owned[r.sid] = true
		if !r.busy && !r.ending {
			r.renew(ignore)
		}
	}
	for _, sid := range n.w.sids {
		if !owned[sid] {
			n.replay(sid, ignore)
		}
	}
}

func (n *node) keep(k kept) {
	k.until = n.w.now + keepFor
	n.kept = append(n.kept, k)
	for len(n.kept) > 0 && n.kept[0].until < n.w.now {
		n.kept = n.kept[1:]
	}
}

// replay makes sure that the store knows the kept endings of a session, in order.
func (n *node) replay(sid string, then func()) {
	var endings []kept
	for _, k := range n.kept {
		if k.args.SID == sid && n.w.now <= k.until && n.w.without != reinstate {
			endings = append(endings, k)
		}
	}
	n.replayEach(endings, then)
}

func (n *node) replayEach(endings []kept, then func()) {
	if len(endings) == 0 {
		then()
		return
	}
	k := endings[0]
	next := func() { n.replayEach(endings[1:], then) }
	k.args.Stamp = n.w.name("z") // the lost log has the one before
	n.finishAgain(k.args, func(res store.OwnerResult) {
		if !lost(res) {
			next()
			return
		}
		n.reinstate(k.run, func(c store.Code) {
			switch c {
			case store.OK:
				n.finishAgain(k.args, func(store.OwnerResult) { next() })
			case store.Busy:
				n.bury(k.run, k.args.Rows, next)
			default:
				next()
			}
		})
	})
}

// lost reports whether a refusal can mean that the store has lost the run.
func lost(res store.OwnerResult) bool {
	switch res.Code {
	case store.Lost, store.Back:
		return true
	case store.Fenced, store.Ended:
		return res.State == "" || !res.State.Ended()
	}
	return false
}

// finishAgain repeats an ending without beginning what waits behind it.
func (n *node) finishAgain(a store.FinishArgs, then func(store.OwnerResult)) {
	insist(n, 0, func() (store.FinishResult, error) { return n.w.store.Finish(background, a) },
		func(res store.FinishResult, _ error) {
			switch res.Code {
			case store.Aborting:
				a.Outcome = store.StateAborted
				n.finishAgain(a, then)
				return
			case store.Bad:
				n.abortAgain(a.SID, a.Run, func() { n.finishAgain(a, then) })
				return
			case store.Waiting:
				n.arm(a.SID, 0, 0, ignore, ignore)
			}
			then(res.OwnerResult)
		})
}

// abortAgain asks for an abort that the store has forgotten.
func (n *node) abortAgain(sid, run string, then func()) {
	entry := store.NewEntry{Name: "abort.started"}
	insist(n, 0, func() (store.AbortResult, error) {
		return n.w.store.RequestAbort(background, sid, guard, run, "", entry)
	}, func(store.AbortResult, error) { then() })
}

func (n *node) reinstate(a store.ReinstateArgs, then func(store.Code)) {
	n.arm(a.SID, leaseTTL, 0, func() {
		insist(n, 0, func() (store.ReinstateResult, error) {
			res, err := n.w.store.Reinstate(background, a)
			n.w.reinstated(a.SID, res)
			return res, err
		}, func(res store.ReinstateResult, _ error) { then(res.Code) })
	}, ignore)
}

func (n *node) bury(r store.ReinstateArgs, last []store.NewRow, then func()) {
	a := store.BuryArgs{SID: r.SID, Guard: r.Guard, Item: r.Item, Rows: append(r.Rows[:len(r.Rows):len(r.Rows)], last...)}
	insist(n, 0, func() (store.Code, error) {
		n.w.buried[r.Item.Run] = true
		return n.w.store.Bury(background, a)
	}, func(store.Code, error) { then() })
}

// lostByStore reports whether a refusal means that the store has lost the run, not
// that somebody else has it.
func (r *run) lostByStore(res store.OwnerResult) bool {
	if r.n.w.without == reinstate || !lost(res) {
		return false
	}
	return res.Code == store.Lost || res.Code == store.Back || r.generation != r.n.known
}

// account is all that the owner knows of its run.
func (r *run) account(seq int64, rows []store.NewRow) store.ReinstateArgs {
	return store.ReinstateArgs{
		SID: r.sid, Guard: guard, Item: r.item, TTL: ms(leaseTTL), Seq: seq, Rows: rows, Stamp: r.n.w.name("re"),
		Record: store.RunRecord{
			Phase: r.phase, Executor: r.item.Executor, Attempt: r.attempt, Abort: r.abort,
			Token: r.token, Fence: r.fence, Node: r.n.id,
		},
	}
}

// bringBack makes the run the active one again, behind the kept endings of its
// session, and goes on; or it leaves.
func (r *run) bringBack(then func()) {
	issued, known := r.n.w.now, r.n.known
	r.busy = true
	r.n.replay(r.sid, func() {
		if r.left {
			return
		}
		a := r.account(r.seq, r.rows)
		r.n.reinstate(a, func(c store.Code) {
			switch {
			case r.left:
			case c == store.OK:
				r.busy = false
				r.acked, r.generation = issued, known
				then()
			case c == store.Busy:
				r.leave()
				r.n.bury(a, nil, ignore)
			default:
				r.leave()
			}
		})
	})
}

// unknown reports whether a call has no answer; then it is repeated.
func unknown(err error) bool { return errors.Is(err, store.ErrUnknown) }

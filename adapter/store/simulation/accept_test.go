package simulation

import (
	"errors"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

var guard = store.Guard{Owner: "alice", Profile: "default"}

// attempt is one try of a node to have a message accepted.
type attempt struct {
	n      *node
	sid    string
	item   store.Item
	token  string
	until  int64
	answer func(told)
	armed  uint64 // generation in which the work index was told
	valid  int64  // latest notAfter of a call sent
}

// told is what a client hears of its message.
type told int

const (
	failed told = iota
	accepted
	refused
)

// accept is flow 5.1.
func (n *node) accept(sid string, item store.Item, answer func(told)) {
	a := &attempt{n: n, sid: sid, item: item, token: n.token(), until: n.w.now + budget, answer: answer}
	n.w.attempts[item.Run] = a
	a.arm()
}

// arm comes before the first Submit, and again if the store may have lost it.
func (a *attempt) arm() {
	a.armed = a.n.known
	a.n.arm(a.sid, store.NotAfter.Milliseconds()+leaseTTL, a.until, a.submit, func() { a.answer(failed) })
}

func (a *attempt) submit() {
	n, w := a.n, a.n.w
	if a.armed != n.known {
		a.arm()
		return
	}
	args := store.SubmitArgs{SID: a.sid, Guard: guard, Item: a.item, NotAfter: w.now + store.NotAfter.Milliseconds()}
	started := false
	a.valid = args.NotAfter
	issued, known := w.now, n.known
	offer(n, a.until, func() func() (store.SubmitResult, error) {
		sent := args
		if n.mayBegin() {
			sent.Start, started = &store.Start{Token: a.token, Node: n.id, TTL: ms(leaseTTL)}, true
		}
		do := func() (store.SubmitResult, error) {
			res, err := w.store.Submit(background, sent)
			w.submitted(a, res)
			return res, err
		}
		if sent.Start == nil {
			return do
		}
		return sameProcess(n, do)
	}, func(res store.SubmitResult, err error) {
		switch {
		case errors.Is(err, store.ErrUnknown):
			w.toldFailed[a.item.Run] = true
			a.answer(failed)
			a.withdraw()
		case res.Code == store.Started:
			a.answer(accepted)
			r := n.adopt(a.sid, a.token, a.item)
			r.acked, r.generation, r.fence = issued, known, res.Fence
			r.begin()
		case res.Code == store.Queued:
			a.answer(accepted)
			if res.Orphan {
				n.rescue(a.sid)
			}
		case res.Code == store.Repeat && started && n.known != known && res.Run == a.item.Run && res.State == store.StateActive:
			a.answer(accepted) // begun by an earlier try
			r := n.claimed(a.sid, a.token, a.item)
			r.acked, r.generation = issued, known
			r.begin()
		case res.Code == store.Repeat:
			a.answer(accepted)
		case res.Code == store.Expired && w.now < a.until:
			a.submit()
		case res.Code == store.Expired:
			a.answer(failed)
		default:
			a.answer(refused)
		}
	})
}

// withdraw is step 8: repeated until it is answered, or the process dies.
func (a *attempt) withdraw() {
	n := a.n
	if n.settling() { // its run may come back
		n.after(n.settled-n.w.now, a.withdraw)
		return
	}
	call(n, sameProcess(n, func() (store.WithdrawResult, error) {
		return n.w.store.Withdraw(background, a.sid, a.item.QID, a.item.Run)
	}), func(res store.WithdrawResult, err error) {
		switch {
		case unknown(err):
			n.after(50+n.w.upTo(250), a.withdraw)
		case res.Code == store.Done:
			n.w.withdrawn(a.item)
		case res.Code == store.Active && res.Token == a.token:
			r := n.adopt(a.sid, a.token, a.item)
			r.seq = res.Seq
			r.finish(store.StateFailed)
		}
	})
}

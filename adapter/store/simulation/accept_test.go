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
	valid  int64 // latest notAfter of a call sent
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
	n.arm(sid, store.NotAfter.Milliseconds()+leaseTTL, a.until, a.submit, func() { answer(failed) })
}

func (a *attempt) submit() {
	n, w := a.n, a.n.w
	args := store.SubmitArgs{SID: a.sid, Guard: guard, Item: a.item, NotAfter: w.now + store.NotAfter.Milliseconds()}
	if !n.draining {
		args.Start = &store.Start{Token: a.token, Node: n.id, TTL: ms(leaseTTL)}
	}
	a.valid = args.NotAfter
	issued := w.now
	insist(n, a.until, func() (store.SubmitResult, error) {
		res, err := w.store.Submit(background, args)
		w.submitted(a, res)
		return res, err
	}, func(res store.SubmitResult, err error) {
		switch {
		case errors.Is(err, store.ErrUnknown):
			w.toldFailed[a.item.Run] = true
			a.answer(failed)
			a.withdraw()
		case res.Code == store.Started:
			a.answer(accepted)
			r := n.adopt(a.sid, a.token, a.item)
			r.acked = issued
			r.begin()
		case res.Code == store.Queued:
			a.answer(accepted)
			if res.Orphan {
				n.rescue(a.sid)
			}
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
	insist(n, 0, func() (store.WithdrawResult, error) {
		return n.w.store.Withdraw(background, a.sid, a.item.QID, a.item.Run)
	}, func(res store.WithdrawResult, err error) {
		switch {
		case res.Code == store.Done:
			n.w.withdrawn(a.item)
		case res.Code == store.Active && res.Token == a.token:
			r := n.adopt(a.sid, a.token, a.item)
			r.seq = res.Seq
			r.finish(store.StateFailed)
		}
	})
}

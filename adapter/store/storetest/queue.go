package storetest

import (
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func (f *fixture) withdraw(qid, run string, want store.Code) store.WithdrawResult {
	f.Helper()
	res := must[store.WithdrawResult](f)(f.store.Withdraw(f.ctx(), f.sid, qid, run))
	equal(f, "Withdraw "+qid, res.Code, want)
	return res
}

func (f *fixture) cancel(qid string, want store.Code) store.CancelResult {
	f.Helper()
	res := must[store.CancelResult](f)(f.store.CancelQueued(f.ctx(), f.sid, f.guard, qid))
	equal(f, "CancelQueued "+qid, res.Code, want)
	return res
}

func testWithdraw(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"of an unknown item forbids that attempt only (H4, H6)": func(f *fixture) {
			f.withdraw("q1", "run-q1", store.Done)
			f.withdraw("q1", "run-q1", store.Done)
			equal(f, "exists", f.head().Exists(), false)
			f.submit(f.args("q1", true), store.Withdrawn)
			a := f.args("q1", true)
			a.Item.Run = "second"
			f.submit(a, store.Started)
			f.submit(f.args("q1", true), store.Withdrawn)
		},
		"of a queued item takes it out (H4)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			before := f.head().Head
			f.withdraw("q2", "run-q2", store.Done)
			f.withdraw("q2", "run-q2", store.Done)
			entries := f.log(sub.Incarnation, before)
			equal(f, "log", kinds(entries), "queue")
			equal(f, "left", entries[0].QueueIDs[0], "q3")
			f.submit(f.args("q2", true), store.Withdrawn)
			a := f.args("q2", true)
			a.Item.Run = "second"
			equal(f, "resent", f.submit(a, store.Queued).Length, 2)
		},
		"of what another attempt was told of is too late (H5)": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2")
			a := f.args("q2", true)
			a.Item.Run = "second"
			f.submit(a, store.Repeat)
			equal(f, "state", f.withdraw("q2", "run-q2", store.Kept).State, store.StateQueued)
			equal(f, "queue", f.head().QueueLength, 1)
		},
		"of an attempt that was not the accepted one": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2")
			equal(f, "state", f.withdraw("q2", "other", store.Kept).State, store.StateQueued)
			equal(f, "queue", f.head().QueueLength, 1)
			a := f.args("q2", true)
			a.Item.Run = "other"
			f.submit(a, store.Withdrawn)
		},
		"of the active run tells who has it": func(f *fixture) {
			f.start("q1")
			res := f.withdraw("q1", "run-q1", store.Active)
			equal(f, "token", res.Token, f.token)
			equal(f, "phase", res.Phase, store.PhaseStarting)
			f.append(f.batch("x"), store.OK)
			equal(f, "seq", f.withdraw("q1", "run-q1", store.Active).Seq, int64(1))
			f.finish(f.end(store.StateFailed), store.Idle)
			equal(f, "state", f.withdraw("q1", "run-q1", store.Kept).State, store.StateFailed)
		},
	})
}

func testCancel(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"takes the item out and announces it (QUE-02)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			before := f.head().Head
			f.cancel("q2", store.Cancelled)
			entries := f.log(sub.Incarnation, before)
			equal(f, "log", kinds(entries), "queue")
			equal(f, "left", entries[0].QueueIDs[0], "q3")
			equal(f, "again", f.cancel("q2", store.NotQueued).State, store.StateCancelled)
			f.submit(f.args("q2", true), store.Repeat)
		},
		"of what does not wait": func(f *fixture) {
			f.cancel("q1", store.NotQueued)
			f.start("q1")
			equal(f, "state", f.cancel("q1", store.NotQueued).State, store.StateActive)
			equal(f, "state", f.cancel("never", store.NotQueued).State, store.State(""))
			f.guard.Owner = "mallory"
			f.cancel("q1", store.Forbidden)
		},
		"an item popped is not cancelled (H36)": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2")
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			equal(f, "state", f.cancel("q2", store.NotQueued).State, store.StateActive)
		},
		"DropQueue cancels all with one event": func(f *fixture) {
			drop := func(want store.Code) {
				c := must[store.Code](f)(f.store.DropQueue(f.ctx(), f.sid, f.guard, f.later()))
				equal(f, "DropQueue", c, want)
			}
			drop(store.None)
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			before := f.head().Head
			drop(store.OK)
			drop(store.OK)
			equal(f, "log", kinds(f.log(sub.Incarnation, before)), "queue")
			equal(f, "state", f.cancel("q3", store.NotQueued).State, store.StateCancelled)
			f.finish(f.end(store.StateCompleted, "gateway"), store.Idle)
			if f.NotAfter {
				c := must[store.Code](f)(f.store.DropQueue(f.ctx(), f.sid, f.guard, f.store.Now()-1))
				equal(f, "late", c, store.Expired)
			}
			f.guard.Owner = "mallory"
			drop(store.Forbidden)
		},
	})
}

func testAbort(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"is logged once and told to the owner (H15)": func(f *fixture) {
			sub := f.start("q1")
			before := f.head().Head
			res := f.abort("run-q1", store.OK)
			equal(f, "alive", res.Alive, true)
			equal(f, "node", res.Node, "n1")
			equal(f, "phase", res.Phase, store.PhaseStarting)
			equal(f, "alive", f.abort("run-q1", store.Already).Alive, true)
			equal(f, "log", kinds(f.log(sub.Incarnation, before)), "abort")
			equal(f, "told", f.append(f.batch("late text"), store.OK).Abort, true)
			equal(f, "root", f.head().Run.Abort, true)
		},
		"never hits another run than the one meant (H13)": func(f *fixture) {
			f.abort("run-q1", store.None)
			f.start("q1")
			f.enqueue("q2")
			f.abort("unknown", store.Ended)
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			equal(f, "state", f.abort("run-q1", store.Ended).State, store.StateCompleted)
			equal(f, "abort", f.head().Run.Abort, false)
			f.finish(f.end(store.StateCompleted, "gateway"), store.Idle)
			equal(f, "over", f.abort("run-q2", store.Ended).State, store.StateCompleted)
			f.abort("unknown", store.None)
			f.abort("", store.None)
			f.guard.Owner = "mallory"
			f.abort("run-q2", store.Forbidden)
		},
		"of a run whose owner is gone (H15)": func(f *fixture) {
			f.start("q1")
			if !f.orphan() {
				return
			}
			equal(f, "alive", f.abort("run-q1", store.OK).Alive, false)
			res := f.takeOver("n2/b/t", nil, store.Resumed)
			equal(f, "abort", res.Session.Run.Abort, true)
			equal(f, "rerun", res.Rerun, false)
			f.finish(f.end(store.StateAborted), store.Idle)
		},
	})
}

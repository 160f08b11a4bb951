package storetest

import (
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func testTakeOver(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"of nothing": func(f *fixture) {
			f.takeOver("n2/b/t", nil, store.Idle)
			f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.takeOver("n2/b/t", nil, store.Idle)
		},
		"of a living owner": func(f *fixture) {
			f.start("q1")
			res := f.takeOver("n2/b/t", nil, store.Held)
			equal(f, "node", res.Node, "n1")
			if f.Leases && (res.Remaining <= 0 || res.Remaining > store.LeaseTTL) {
				f.Fatalf("remaining %v", res.Remaining)
			}
		},
		"of a run that was never sent begins it again (H8, H30)": func(f *fixture) {
			f.start("q1")
			token := f.token
			if !f.orphan() {
				return
			}
			equal(f, "alive", f.head().Run.Alive, false)
			res := f.takeOver("n2/b/t", nil, store.Resumed)
			equal(f, "rerun", res.Rerun, true)
			equal(f, "item", res.Item.QID, "q1")
			equal(f, "options", string(res.Item.Options), "{}")
			equal(f, "row", string(res.Row.Data), `{"text":"q1"}`)
			equal(f, "row id", res.Row.ID, int64(1))
			equal(f, "attempt", res.Session.Run.Attempt, 1)
			equal(f, "rows", len(f.rows()), 1)
			again := f.takeOver("n2/b/t", nil, store.Resumed)
			equal(f, "attempt", again.Session.Run.Attempt, 1)
			equal(f, "fence", again.Fence, res.Fence)
			b := f.batch("late")
			b.Token = token
			f.append(b, store.Fenced)
			f.append(f.batch("mine"), store.OK)
		},
		"of a run that was sent is no rerun (H8)": func(f *fixture) {
			f.start("q1")
			b := f.batch()
			b.Patch.Phase = store.PhaseSent
			f.append(b, store.OK)
			if !f.orphan() {
				return
			}
			equal(f, "rerun", f.takeOver("n2/b/t", nil, store.Resumed).Rerun, false)
		},
		"brings the checkpoint and the log behind it (H20)": func(f *fixture) {
			if !f.Leases {
				return
			}
			f.start("q0")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.start("q1")
			f.started()
			b := f.batch("folded")
			b.Checkpoint = []byte("state")
			f.append(b, store.OK)
			f.append(f.batch("behind"), store.OK)
			f.orphan()
			f.Pass(time.Hour)
			res := f.takeOver("n2/b/t", nil, store.Resumed)
			equal(f, "checkpoint", string(res.Checkpoint), "state")
			equal(f, "entries", len(res.Entries), 1)
			equal(f, "entry", res.Entries[0].Name, "behind")
		},
		"of a queue without a run begins its head": func(f *fixture) {
			sub := f.submit(f.args("q1", false), store.Queued)
			res := f.takeOver("n2/b/t", []string{"gateway"}, store.Next)
			equal(f, "item", res.Item.QID, "q1")
			equal(f, "again", f.takeOver("n2/b/t", nil, store.Next).Item.QID, "q1")
			entries := f.log(sub.Incarnation, sub.Last)
			equal(f, "log", kinds(entries), "queue peer")
			equal(f, "dequeued", entries[0].Dequeued, "q1")
			f.takeOver("n3/b/t", nil, store.Held)
			f.finish(f.end(store.StateCompleted), store.Idle)
		},
		"only by a node that can carry it": func(f *fixture) {
			f.submit(f.args("q1", false), store.Queued)
			equal(f, "executor", f.takeOver("n2/b/t", []string{"bridge"}, store.Unfit).Executor, "gateway")
			f.takeOver("n2/b/t", []string{"bridge", "gateway"}, store.Next)
			if f.orphan() {
				f.takeOver("n3/b/t", []string{"bridge"}, store.Unfit)
			}
		},
		"is bounded (H31)": func(f *fixture) {
			f.start("q1")
			for i, rerun := range []bool{true, true, false} {
				if !f.orphan() {
					return
				}
				res := f.takeOver("taker"+string(rune('0'+i)), nil, store.Resumed)
				equal(f, "rerun", res.Rerun, rerun)
				equal(f, "attempt", res.Session.Run.Attempt, i+1)
			}
		},
		"of a run begun under another generation is no rerun (H25)": func(f *fixture) {
			if f.NewGeneration == nil {
				return
			}
			f.start("q1")
			f.NewGeneration()
			if !f.orphan() {
				return
			}
			equal(f, "rerun", f.takeOver("n2/b/t", nil, store.Resumed).Rerun, false)
		},
		"waits for the lease, which Append and Renew prolong": func(f *fixture) {
			if !f.Leases {
				return
			}
			f.start("q1")
			f.Pass(store.LeaseTTL * 2 / 3)
			f.append(f.batch("x"), store.OK)
			f.Pass(store.LeaseTTL * 2 / 3)
			f.takeOver("n2/b/t", nil, store.Held)
			must[store.OwnerResult](f)(f.store.Renew(f.ctx(), f.sid, f.token, f.run, f.seq, store.LeaseTTL))
			f.Pass(store.LeaseTTL * 2 / 3)
			f.takeOver("n2/b/t", nil, store.Held)
			f.enqueue("q2")
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			f.Pass(store.LeaseTTL * 2 / 3)
			f.takeOver("n2/b/t", nil, store.Held)
			f.Pass(store.LeaseTTL)
			equal(f, "item", f.takeOver("n2/b/t", nil, store.Resumed).Item.QID, "q2")
		},
		"an expired lease that nobody took is renewed (H23)": func(f *fixture) {
			if !f.Leases {
				return
			}
			f.start("q1")
			f.Pass(time.Minute)
			equal(f, "alive", f.head().Run.Alive, false)
			f.append(f.batch("still here"), store.OK)
			equal(f, "alive", f.head().Run.Alive, true)
			f.Pass(time.Minute)
			res := must[store.OwnerResult](f)(f.store.Renew(f.ctx(), f.sid, f.token, f.run, f.seq, store.LeaseTTL))
			equal(f, "Renew", res.Code, store.OK)
			f.takeOver("n2/b/t", nil, store.Held)
		},
	})
}

package storetest

import (
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func (f *fixture) bury(qid string, want store.Code) {
	f.Helper()
	r := f.lost(qid, 0, "part")
	a := store.BuryArgs{SID: r.SID, Guard: r.Guard, Create: r.Create, Item: r.Item, Rows: r.Rows}
	equal(f, "Bury "+qid, must[store.Code](f)(f.store.Bury(f.ctx(), a)), want)
}

func testBury(t *testing.T, open Open) {
	recoverCases(t, open, map[string]func(*fixture){
		"beside another run keeps the rows and says failed (H25)": func(f *fixture) {
			f.start("q1")
			last := f.head().Head
			for range 2 {
				f.bury("q2", store.OK)
				equal(f, "texts", f.texts(), `{"text":"q1"}{"text":"q2"}part`)
				equal(f, "head", f.head().Head, last)
			}
			equal(f, "run", f.known("q2", store.StateFailed).Run, "run-q2")
			f.reinstate(f.lost("q2", 4), store.Ended)
			f.append(f.batch("x"), store.OK)
			f.finish(f.end(store.StateCompleted), store.Idle)
		},
		"of a waiting message takes it out of the queue": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			before := f.head().Head
			f.bury("q2", store.OK)
			entries := f.read(sub.Incarnation, before, store.OK)
			equal(f, "log", kinds(entries), "queue")
			equal(f, "length", entries[0].QueueLength, 1)
			equal(f, "waits", f.snapshot().Queue[0].QID, "q3")
			equal(f, "next", f.finish(f.end(store.StateCompleted, "gateway"), store.Next).Item.QID, "q3")
		},
		"of a lost session brings it back": func(f *fixture) {
			f.bury("q1", store.OK)
			h := f.head()
			equal(f, "busy", h.Busy(), false)
			equal(f, "owner", h.Owner, "alice")
			equal(f, "texts", f.texts(), `{"text":"q1"}part`)
			f.known("q1", store.StateFailed)
			f.start("q2")
		},
		"of what is active or over does nothing": func(f *fixture) {
			f.start("q1")
			f.bury("q1", store.OK)
			equal(f, "run", f.head().Run.Run, "run-q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.bury("q1", store.OK)
			f.known("q1", store.StateCompleted)
			equal(f, "messages", f.head().Messages, 2)
			equal(f, "code", must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, "op", f.later())), store.Done)
			f.bury("q2", store.OK)
			equal(f, "exists", f.head().Exists(), false)
		},
		"is for its owner": func(f *fixture) {
			f.start("q1")
			f.guard.Owner = "mallory"
			f.bury("q2", store.Forbidden)
		},
	})
}

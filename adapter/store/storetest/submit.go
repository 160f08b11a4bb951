package storetest

import (
	"bytes"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func testSubmit(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"begins an idle session and logs the peer entry (H30)": func(f *fixture) {
			res := f.start("q1")
			equal(f, "before", res.Before, store.Origin)
			equal(f, "row", res.Row.ID, int64(1))
			entries := f.log(res.Incarnation, store.Origin)
			equal(f, "log", kinds(entries), "peer")
			e := entries[0]
			equal(f, "qid", e.QID, "q1")
			equal(f, "row id", e.Row, res.Row.ID)
			equal(f, "left out", e.Except, "cid-q1")
			equal(f, "prev", e.Prev, store.Origin.Stamp)
			equal(f, "last", res.Last, e.Position())
			rows := f.rows()
			equal(f, "rows", len(rows), 1)
			equal(f, "row qid", rows[0].QID, "q1")
			h := f.head()
			equal(f, "phase", h.Run.Phase, store.PhaseStarting)
			equal(f, "token", h.Run.Token, f.token)
			equal(f, "alive", h.Run.Alive, true)
		},
		"queues behind a run, in order (QUE-01)": func(f *fixture) {
			f.start("q1")
			f.started()
			before := f.head().Head
			res := f.submit(f.args("q2", true), store.Queued)
			equal(f, "length", res.Length, 1)
			equal(f, "orphan", res.Orphan, false)
			equal(f, "before", res.Before, before)
			f.enqueue("q3")
			entries := f.log(res.Incarnation, before)
			equal(f, "log", kinds(entries), "queue queue")
			equal(f, "ids", len(entries[1].QueueIDs), 2)
			equal(f, "first", entries[1].QueueIDs[0], "q2")
			equal(f, "length", entries[1].QueueLength, 2)
			equal(f, "ids, not contents (H33)", len(entries[1].Payload), 0)
			snap := f.snapshot()
			equal(f, "queue", len(snap.Queue), 2)
			equal(f, "head", snap.Queue[0].QID, "q2")
		},
		"without start only queues, as an orphan (QUE-06)": func(f *fixture) {
			res := f.submit(f.args("q1", false), store.Queued)
			equal(f, "orphan", res.Orphan, true)
			h := f.head()
			equal(f, "busy", h.Busy(), true)
			equal(f, "run", h.Run.Run, "")
			res = f.submit(f.args("q2", true), store.Queued)
			equal(f, "orphan", res.Orphan, true)
		},
		"the same call again gets the same result (QUE-04)": func(f *fixture) {
			a := f.args("q1", true)
			first := f.submit(a, store.Started)
			again := f.submit(a, store.Started)
			equal(f, "before", again.Before, first.Before)
			equal(f, "last", again.Last, first.Last)
			equal(f, "row", again.Row.ID, first.Row.ID)
			equal(f, "content", bytes.Equal(again.Row.Data, first.Row.Data), true)
			equal(f, "fence", again.Fence, first.Fence)
			b := f.args("q2", true)
			queued := f.submit(b, store.Queued)
			again = f.submit(b, store.Queued)
			equal(f, "before", again.Before, queued.Before)
			equal(f, "length", again.Length, 1)
			equal(f, "log", kinds(f.log(first.Incarnation, store.Origin)), "peer queue")
			equal(f, "rows", len(f.rows()), 1)
		},
		"another attempt of the same message is a repeat (QUE-04)": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2")
			for _, qid := range []string{"q1", "q2"} {
				a := f.args(qid, true)
				a.Item.Run = "other-" + qid
				res := f.submit(a, store.Repeat)
				equal(f, "run", res.Run, "run-"+qid)
			}
			f.finish(f.end(store.StateCompleted), store.Waiting)
			a := f.args("q1", true)
			a.Item.Run = "third"
			equal(f, "state", f.submit(a, store.Repeat).State, store.StateCompleted)
			equal(f, "rows", len(f.rows()), 2)
		},
		"the first attempt is a repeat once things moved on": func(f *fixture) {
			f.start("q1")
			f.started()
			res := f.submit(f.args("q1", true), store.Repeat)
			equal(f, "state", res.State, store.StateActive)
		},
		"another content under the same id is a conflict": func(f *fixture) {
			f.start("q1")
			a := f.args("q1", true)
			a.Item.Digest = "another"
			f.submit(a, store.Conflict)
		},
		"somebody else's session is refused": func(f *fixture) {
			f.start("q1")
			a := f.args("q2", true)
			a.Guard.Owner = "mallory"
			f.submit(a, store.Forbidden)
			a = f.args("q1", true)
			a.Guard.Profile = "work"
			f.submit(a, store.Forbidden)
		},
		"a full queue refuses (H33)": func(f *fixture) {
			f.start("q1")
			for i := range f.Limits.QueueItems {
				f.enqueue("w" + string(rune('a'+i)))
			}
			f.submit(f.args("q2", true), store.Full)
			equal(f, "known", f.submit(f.args("wa", true), store.Queued).Length, f.Limits.QueueItems)
		},
		"an oversized item or queue refuses (H33)": func(f *fixture) {
			f.start("q1")
			a := f.args("big", true)
			a.Item.Row.Data = make([]byte, f.Limits.ItemBytes+1)
			f.submit(a, store.Full)
			for _, qid := range []string{"b1", "b2", "b3"} {
				a := f.args(qid, true)
				a.Item.Row.Data = make([]byte, f.Limits.QueueBytes*2/5)
				want := store.Queued
				if qid == "b3" {
					want = store.Full
				}
				f.submit(a, want)
			}
		},
		"executed late it is refused (H4)": func(f *fixture) {
			if !f.NotAfter {
				return
			}
			a := f.args("q1", true)
			a.NotAfter = f.store.Now() - 1
			res := f.submit(a, store.Expired)
			equal(f, "now", res.Now > a.NotAfter, true)
			equal(f, "exists", f.head().Exists(), false)
			a.NotAfter = f.later()
			f.submit(a, store.Started)
			a.NotAfter = f.store.Now() - 1
			f.submit(a, store.Started)
		},
		"the ledger is pruned, but not of what has not ended": func(f *fixture) {
			f.start("q0")
			f.enqueue("kept")
			for i := range 3 * f.Limits.LedgerEntries {
				qid := "c" + string(rune('A'+i))
				f.enqueue(qid)
				must[store.CancelResult](f)(f.store.CancelQueued(f.ctx(), f.sid, f.guard, qid))
			}
			f.submit(f.args("kept", true), store.Queued)
			a := f.args("q0", true)
			a.Item.Run = "another"
			f.submit(a, store.Repeat)
			last := "c" + string(rune('A'+3*f.Limits.LedgerEntries-1))
			equal(f, "newest", f.submit(f.args(last, true), store.Repeat).State, store.StateCancelled)
			f.submit(f.args("cA", true), store.Queued)
		},
		"ids with braces, colons, percent signs and 200 bytes (H32)": func(f *fixture) {
			long := string(bytes.Repeat([]byte("é"), 100))
			for i, sid := range []string{"a}:x", "{s:a}:x", "%2f", "a", "a:", long, "a}:x0"} {
				f.sid = sid
				f.token = "tok" + string(rune('a'+i))
				res := f.start("q1")
				equal(f, "row", res.Row.ID, int64(1))
				equal(f, "sid", f.head().SID, sid)
			}
			for _, sid := range []string{"", long + "x", "a\x00b", "a\nb", "\xff"} {
				a := f.args("q1", true)
				a.SID = sid
				if _, err := f.store.Submit(f.ctx(), a); err == nil {
					f.Fatalf("session id %q was accepted", sid)
				}
			}
		},
		"rows of queued items are found before and after they begin": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2", "q3")
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			rows := must[map[string]store.Row](f)(f.store.QueuedRows(f.ctx(), f.sid, []string{"q2", "q3", "nowhere"}))
			equal(f, "found", len(rows), 2)
			equal(f, "q2", string(rows["q2"].Data), `{"text":"q2"}`)
			equal(f, "q3", string(rows["q3"].Data), `{"text":"q3"}`)
		},
		"store time": func(f *fixture) {
			if d := time.Since(time.UnixMilli(f.store.Now())); f.Pass == nil && (d > time.Minute || d < -time.Minute) {
				f.Fatalf("store time is %v off", d)
			}
			if f.store.Now() <= 0 {
				f.Fatal("store has no time")
			}
		},
	})
}

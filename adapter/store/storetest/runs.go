package storetest

import (
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func testAppend(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"events get dense offsets and a stamp chain": func(f *fixture) {
			sub := f.start("q1")
			res := f.append(f.batch("a", "b", "c"), store.OK)
			equal(f, "before", res.Before, sub.Last)
			equal(f, "last", res.Last.Offset, sub.Last.Offset+3)
			entries := f.log(sub.Incarnation, store.Origin)
			prev := store.Origin
			for i := range entries {
				equal(f, "offset", entries[i].Offset, prev.Offset+1)
				equal(f, "prev", entries[i].Prev, prev.Stamp)
				prev = entries[i].Position()
			}
			equal(f, "head", f.head().Head, prev)
			equal(f, "run", entries[1].Run, "run-q1")
			equal(f, "name", entries[2].Name, "b")
		},
		"the same batch again is told as done (H16)": func(f *fixture) {
			f.start("q1")
			b := f.batch("a")
			b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("{}")}}
			first := f.append(b, store.OK)
			again := f.append(b, store.Dup)
			equal(f, "before", again.Before, first.Before)
			equal(f, "last", again.Last, first.Last)
			equal(f, "row", again.Rows[0], first.Rows[0])
			equal(f, "time", again.Time, first.Time)
			equal(f, "rows", len(f.rows()), 2)
		},
		"a gap or an old number answers the store's (H16)": func(f *fixture) {
			f.start("q1")
			f.append(f.batch("a"), store.OK)
			f.append(f.batch("b"), store.OK)
			b := f.batch("c")
			for _, seq := range []int64{0, 1, 5} {
				b.Seq = seq
				equal(f, "seq", f.append(b, store.Back).Seq, int64(2))
			}
		},
		"another token is fenced, another run has ended (H16)": func(f *fixture) {
			f.start("q1")
			b := f.batch("a")
			b.Token = "n2/boot/t2"
			equal(f, "state", f.append(b, store.Fenced).State, store.StateActive)
			b = f.batch("a")
			b.Run = "older"
			f.append(b, store.Ended)
			equal(f, "log", f.head().Head.Offset, int64(1))
		},
		"never makes a session (H19)": func(f *fixture) {
			f.run = "run-q1"
			f.append(f.batch("a"), store.Lost)
			equal(f, "exists", f.head().Exists(), false)
		},
		"an idle session is nobody's (H16)": func(f *fixture) {
			f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			b := f.batch("late")
			equal(f, "state", f.append(b, store.Fenced).State, store.StateCompleted)
			b.Token = ""
			f.append(b, store.Fenced)
		},
		"the patch shows in the root (H8)": func(f *fixture) {
			f.start("q1")
			b := f.batch()
			b.Patch = store.Patch{Phase: store.PhaseSent, WireID: "w", Upstream: []byte("cursor")}
			f.append(b, store.OK)
			r := f.head().Run
			equal(f, "phase", r.Phase, store.PhaseSent)
			equal(f, "wire id", r.WireID, "w")
			equal(f, "upstream", string(r.Upstream), "cursor")
			f.append(f.batch("x"), store.OK)
			equal(f, "phase stays", f.head().Run.Phase, store.PhaseSent)
		},
		"the queue's length at commit is given": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			b := f.batch("run.started")
			equal(f, "length", f.append(b, store.OK).QueueLength, 2)
			entries := f.log(sub.Incarnation, store.Origin)
			equal(f, "started", entries[len(entries)-1].QueueLength, 2)
		},
		"the checkpoint trims the log, never past itself (H21)": func(f *fixture) {
			sub := f.start("q1")
			for range 2 * f.Limits.LogKeep {
				f.append(f.batch("d"), store.OK)
			}
			b := f.batch("d")
			b.Checkpoint = []byte("folded")
			covered := f.append(b, store.OK).Last
			for range 2 * f.Limits.LogKeep {
				f.append(f.batch("d"), store.OK)
			}
			snap := f.snapshot()
			equal(f, "checkpoint", string(snap.Checkpoint), "folded")
			equal(f, "covered", snap.Covered, covered.Offset)
			equal(f, "entries", len(snap.Entries), 2*f.Limits.LogKeep)
			equal(f, "first", snap.Entries[0].Offset, covered.Offset+1)
			res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, sub.Incarnation, store.Origin, 0))
			equal(f, "trimmed", res.Code, store.Behind)
			equal(f, "kept", len(f.log(sub.Incarnation, covered)), 2*f.Limits.LogKeep)
		},
		"rows are sealed in mid-run": func(f *fixture) {
			f.start("q1")
			b := f.batch("tool.started")
			b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("1")}, {Role: store.RoleTool, Data: []byte("2")}}
			res := f.append(b, store.OK)
			equal(f, "ids", len(res.Rows), 2)
			rows := f.rows()
			equal(f, "rows", len(rows), 3)
			equal(f, "id", rows[2].ID, res.Rows[1])
			equal(f, "data", string(rows[2].Data), "2")
			equal(f, "run", rows[2].Run, "run-q1")
			h := f.head()
			equal(f, "messages", h.Messages, int64(3))
			equal(f, "tools", h.ToolCalls, int64(1))
			equal(f, "of the run", h.Run.Rows, int64(3))
			b = f.batch("tool.started")
			b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("3")}}
			f.append(b, store.OK)
			h = f.head()
			equal(f, "messages", h.Messages, int64(4))
			equal(f, "tools", h.ToolCalls, int64(2))
			equal(f, "of the run", h.Run.Rows, int64(4))
		},
		"Renew": func(f *fixture) {
			f.start("q1")
			f.append(f.batch("a"), store.OK)
			renew := func(token, run string, seq int64, want store.Code) store.OwnerResult {
				res := must[store.OwnerResult](f)(f.store.Renew(f.ctx(), f.sid, token, run, seq, store.LeaseTTL))
				equal(f, "Renew", res.Code, want)
				return res
			}
			equal(f, "head", renew(f.token, f.run, 1, store.OK).Last, f.head().Head)
			renew(f.token, f.run, 0, store.OK)
			equal(f, "seq", renew(f.token, f.run, 2, store.Back).Seq, int64(1))
			renew("other", f.run, 1, store.Fenced)
			renew(f.token, "other", 1, store.Ended)
			f.abort(f.run, store.OK)
			equal(f, "abort", renew(f.token, f.run, 1, store.OK).Abort, true)
			f.sid = "unknown"
			renew(f.token, f.run, 1, store.Lost)
		},
		"Release leaves the run to whoever takes it": func(f *fixture) {
			f.start("q1")
			f.started()
			release := func(seq int64, want store.Code) {
				res := must[store.OwnerResult](f)(f.store.Release(f.ctx(), f.sid, f.token, f.run, seq, []byte("cursor")))
				equal(f, "Release", res.Code, want)
			}
			release(f.seq+1, store.Back)
			release(f.seq, store.OK)
			release(f.seq, store.Fenced)
			h := f.head()
			equal(f, "run", h.Run.Run, f.run)
			equal(f, "alive", h.Run.Alive, false)
			res := f.takeOver("n2/b/t", nil, store.Resumed)
			equal(f, "upstream", string(res.Session.Run.Upstream), "cursor")
			equal(f, "rerun", res.Rerun, false)
		},
	})
}

func testFinish(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"ends the run and leaves the session idle": func(f *fixture) {
			sub := f.start("q1")
			f.started()
			a := f.end(store.StateCompleted, "gateway")
			res := f.finish(a, store.Idle)
			entries := f.log(sub.Incarnation, store.Origin)
			equal(f, "log", kinds(entries), "peer started ev end")
			equal(f, "last", res.Last, entries[3].Position())
			equal(f, "name", entries[3].Name, "run.completed")
			h := f.head()
			equal(f, "busy", h.Busy(), false)
			equal(f, "usage", h.Usage, store.Usage{Input: 10, Output: 5, Context: 15})
			equal(f, "rows", len(f.rows()), 2)
			again := f.finish(a, store.Idle)
			equal(f, "again", again.Last, res.Last)
			equal(f, "row", again.Rows[0], res.Rows[0])
			equal(f, "log", f.head().Head, res.Last)
		},
		"begins the next item in the same step, once (H10, H11)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			before := f.head().Head
			a := f.end(store.StateCompleted, "gateway")
			res := f.finish(a, store.Next)
			equal(f, "item", res.Item.QID, "q2")
			equal(f, "row", string(res.Row.Data), `{"text":"q2"}`)
			again := f.finish(a, store.Next)
			equal(f, "again", again.Item.QID, "q2")
			equal(f, "row", again.Row.ID, res.Row.ID)
			entries := f.log(sub.Incarnation, before)
			equal(f, "log", kinds(entries), "ev end queue peer")
			equal(f, "remaining counts the next", entries[1].QueueLength, 2)
			equal(f, "dequeued", entries[2].Dequeued, "q2")
			equal(f, "length", entries[2].QueueLength, 1)
			equal(f, "peer", entries[3].QID, "q2")
			h := f.head()
			equal(f, "run", h.Run.Run, "run-q2")
			equal(f, "token", h.Run.Token, f.token)
			equal(f, "queue", h.QueueLength, 1)
			f.started()
			f.finish(f.end(store.StateFailed, "gateway"), store.Next)
			f.finish(f.end(store.StateCompleted, "gateway"), store.Idle)
		},
		"the first result is answered after the next run has ended too (H10)": func(f *fixture) {
			f.start("q1")
			f.enqueue("q2")
			old := f.end(store.StateCompleted, "gateway")
			f.finish(old, store.Next)
			f.finish(f.end(store.StateCompleted, "gateway"), store.Idle)
			res := must[store.FinishResult](f)(f.store.Finish(f.ctx(), old))
			equal(f, "code", res.Code, store.Fenced)
			equal(f, "state", res.State, store.StateCompleted)
		},
		"no queue event between a dequeue and its start (H12)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			before := f.head().Head
			f.submit(f.args("q4", true), store.Queued)
			must[store.CancelResult](f)(f.store.CancelQueued(f.ctx(), f.sid, f.guard, "q3"))
			f.append(f.batch("usage.updated"), store.OK)
			f.started()
			entries := f.log(sub.Incarnation, before)
			equal(f, "log", kinds(entries), "ev started queue")
			equal(f, "left", entries[2].QueueIDs[0], "q4")
			equal(f, "length", entries[2].QueueLength, 1)
			f.enqueue("q5")
			equal(f, "log", kinds(f.log(sub.Incarnation, entries[2].Position())), "queue")
		},
		"an owed queue event follows the end of a run that never started (H12)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2")
			f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
			f.submit(f.args("q3", true), store.Queued)
			before := f.head().Head
			f.finish(f.end(store.StateFailed, "gateway"), store.Next)
			equal(f, "log", kinds(f.log(sub.Incarnation, before)), "ev end queue queue peer")
		},
		"leaves the queue to others when it must not pop (H35)": func(f *fixture) {
			for _, pop := range [][]string{nil, {"bridge"}} {
				f.sid += "x"
				f.token += "x"
				f.start("q1")
				f.enqueue("q2")
				f.finish(f.end(store.StateCompleted, pop...), store.Waiting)
				h := f.head()
				equal(f, "busy", h.Busy(), true)
				equal(f, "alive", h.Run.Alive, false)
				equal(f, "item", f.takeOver("n2/b/"+f.sid, nil, store.Next).Item.QID, "q2")
			}
		},
		"an abort asked for cannot be ended otherwise (H14, ABT-06)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2")
			f.abort("run-q1", store.OK)
			head := f.head().Head
			f.finish(f.end(store.StateCompleted, "gateway"), store.Aborting)
			equal(f, "log", f.head().Head, head)
			f.finish(f.end(store.StateAborted, "gateway"), store.Next)
			equal(f, "log", kinds(f.log(sub.Incarnation, head)), "ev end queue peer")
			equal(f, "abort of the next", f.head().Run.Abort, false)
		},
		"an outcome that makes no sense is refused": func(f *fixture) {
			f.start("q1")
			for _, o := range []store.State{store.StateAborted, store.StateCancelled, store.StateQueued, ""} {
				f.finish(f.end(o), store.Bad)
			}
		},
		"an owner's refusals": func(f *fixture) {
			f.start("q1")
			a := f.end(store.StateCompleted)
			a.Token = "other"
			f.finish(a, store.Fenced)
			a = f.end(store.StateCompleted)
			a.Run = "other"
			f.finish(a, store.Ended)
			a = f.end(store.StateCompleted)
			a.Seq = 7
			f.finish(a, store.Back)
			a.SID = "unknown"
			f.finish(a, store.Lost)
		},
		"usage adds up": func(f *fixture) {
			f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.start("q2")
			a := f.end(store.StateCompleted)
			a.Usage = store.Usage{Output: 7}
			f.finish(a, store.Idle)
			equal(f, "usage", f.head().Usage, store.Usage{Input: 10, Output: 12, Context: 15})
		},
	})
}

package storetest

import (
	"fmt"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// testRecover covers Reinstate. Most of what a store looks like after it has
// lost writes can be made without losing any: it is an older state, or none.
func testRecover(t *testing.T, open Open) {
	recoverCases(t, open, map[string]func(*fixture){
		"brings a lost session back with this run's rows (9.6)":                      reinstateLost,
		"of a waiting message takes it out of the queue (H25)":                       reinstateQueued,
		"adds the rows that are missing (H25)":                                       reinstateRows,
		"again, and late, changes nothing more":                                      reinstateAgain,
		"is refused for what the ledger shows ended":                                 reinstateEnded,
		"is refused while another run is active":                                     reinstateBusy,
		"is refused while this run is in other, later hands":                         reinstateFenced,
		"keeps an abort (H13)":                                                       reinstateAborted,
		"takes the place of another attempt that waits":                              reinstateOtherAttempt,
		"lets the next taker run a message that was not sent":                        reinstateStarting,
		"breaks the chain: every reader starts from a snapshot (H26)":                reinstateReaders,
		"after the store fell back: ended runs end again, one by one (H25)":          fallenFinishes,
		"after the store fell back: what was lost is seen by the next Renew (H25)":   fallenRenew,
		"after the store fell back: a position in the lost log is no position (H26)": fallenPosition,
	})
}

// recoverCases runs cases on stores that may lose writes.
func recoverCases(t *testing.T, open Open, all map[string]func(*fixture)) {
	for name, run := range all {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, open)
			if f.store.Generation() > 0 {
				run(f)
			}
		})
	}
}

// testLosesNothing: such a store answers Ended to everything (contract 7).
func testLosesNothing(t *testing.T, open Open) {
	f := newFixture(t, open)
	if f.store.Generation() > 0 {
		return
	}
	f.start("q1")
	f.reinstate(f.lost("q1", 3), store.Ended)
	f.reinstate(f.lost("q2", 0), store.Ended)
	f.bury("q2", store.Ended)
	equal(f, "run", f.head().Run.Run, "run-q1")
	equal(f, "generation", f.store.Generation(), 0)
}

// lost says what an owner knows of a run, its user row and further ones.
func (f *fixture) lost(qid string, seq int64, rows ...string) store.ReinstateArgs {
	f.calls++
	a := f.args(qid, false)
	r := store.ReinstateArgs{
		SID: f.sid, Guard: f.guard, Create: a.Create, Item: a.Item, TTL: store.LeaseTTL, Seq: seq,
		Record: store.RunRecord{
			Phase: store.PhaseRunning, Executor: "gateway", WireID: "wire", Upstream: []byte("cursor"),
			Token: f.token, Fence: 1, Node: "n1",
		},
		Rows: []store.NewRow{a.Item.Row}, Checkpoint: []byte("folded"), Stamp: fmt.Sprintf("re%04d", f.calls),
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, store.NewRow{Role: store.RoleAssistant, Data: []byte(row)})
	}
	return r
}

func (f *fixture) reinstate(a store.ReinstateArgs, want store.Code) store.ReinstateResult {
	f.Helper()
	res := must[store.ReinstateResult](f)(f.store.Reinstate(f.ctx(), a))
	equal(f, "Reinstate "+a.Item.QID, res.Code, want)
	if want == store.OK {
		f.run, f.seq = a.Item.Run, a.Seq
	}
	return res
}

func (f *fixture) renew(want store.Code) store.OwnerResult {
	f.Helper()
	res := must[store.OwnerResult](f)(f.store.Renew(f.ctx(), f.sid, f.token, f.run, f.seq, store.LeaseTTL))
	equal(f, "Renew", res.Code, want)
	return res
}

func (f *fixture) read(ep string, after store.Position, want store.Code) []store.Entry {
	f.Helper()
	res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, ep, after, 0))
	equal(f, fmt.Sprintf("ReadLog after %d", after.Offset), res.Code, want)
	return res.Entries
}

// texts are the contents of the transcript.
func (f *fixture) texts() string {
	f.Helper()
	s := ""
	for _, r := range f.rows() {
		s += string(r.Data)
	}
	return s
}

// known tells what the ledger knows of a message.
func (f *fixture) known(qid string, want store.State) store.SubmitResult {
	f.Helper()
	a := f.args(qid, false)
	a.Item.Run = "probe"
	res := f.submit(a, store.Repeat)
	equal(f, "state of "+qid, res.State, want)
	return res
}

func reinstateLost(f *fixture) {
	res := f.reinstate(f.lost("q1", 4, "sealed"), store.OK)
	equal(f, "rows", fmt.Sprint(res.Rows), "[1 2]")
	h := f.head()
	equal(f, "incarnation", h.Incarnation, res.Incarnation)
	equal(f, "head", h.Head, res.Last)
	equal(f, "title", h.Title, "Title of s-1")
	equal(f, "owner", h.Owner, "alice")
	r := &h.Run
	equal(f, "record", fmt.Sprint(r.Run, r.QID, r.Phase, r.Executor, r.WireID, string(r.Upstream), r.Token, r.Node, r.Rows, r.Alive),
		fmt.Sprint("run-q1", "q1", store.PhaseRunning, "gateway", "wire", "cursor", f.token, "n1", 2, true))
	snap := f.snapshot()
	equal(f, "checkpoint", string(snap.Checkpoint), "folded")
	equal(f, "covered", snap.Covered, h.Head.Offset)
	equal(f, "texts", f.texts(), `{"text":"q1"}sealed`)
	equal(f, "run", f.known("q1", store.StateActive).Run, "run-q1")
	f.takeOver("n2/b/t", nil, store.Held)
	f.append(f.batch("on"), store.OK)
	f.enqueue("q2")
	f.finish(f.end(store.StateCompleted, "gateway"), store.Next)
	f.known("q1", store.StateCompleted)
	f.finish(f.end(store.StateCompleted), store.Idle)
	equal(f, "messages", f.head().Messages, 5)
}

func reinstateQueued(f *fixture) {
	f.start("q1")
	f.enqueue("q2", "q3")
	f.finish(f.end(store.StateCompleted), store.Waiting)
	f.reinstate(f.lost("q2", 7, "part"), store.OK)
	snap := f.snapshot()
	equal(f, "waiting", len(snap.Queue), 1)
	equal(f, "waits", snap.Queue[0].QID, "q3")
	equal(f, "length", snap.Session.QueueLength, 1)
	f.known("q2", store.StateActive)
	equal(f, "texts", f.texts(), `{"text":"q1"}{"text":"answer"}{"text":"q2"}part`)
	rows := must[map[string]store.Row](f)(f.store.QueuedRows(f.ctx(), f.sid, []string{"q2", "q3"}))
	equal(f, "row of q2", string(rows["q2"].Data), `{"text":"q2"}`)
	f.started()
	equal(f, "next", f.finish(f.end(store.StateCompleted, "gateway"), store.Next).Item.QID, "q3")
}

func reinstateRows(f *fixture) {
	f.start("q1")
	b := f.batch("x")
	b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("one")}}
	f.append(b, store.OK)
	res := f.reinstate(f.lost("q1", 3, "one", "two", "three"), store.OK)
	equal(f, "ids", fmt.Sprint(res.Rows), "[1 2 3 4]")
	equal(f, "texts", f.texts(), `{"text":"q1"}onetwothree`)
	equal(f, "rows of the run", f.head().Run.Rows, 4)
	equal(f, "run", f.rows()[3].Run, "run-q1")
}

func reinstateAgain(f *fixture) {
	a := f.lost("q1", 2, "one")
	first := f.reinstate(a, store.OK)
	again := f.reinstate(a, store.OK)
	equal(f, "rows", fmt.Sprint(again.Rows), fmt.Sprint(first.Rows))
	equal(f, "last", again.Last, first.Last)
	last := f.append(f.batch("x"), store.OK).Last
	late := must[store.ReinstateResult](f)(f.store.Reinstate(f.ctx(), a))
	equal(f, "late", late.Code, store.OK)
	equal(f, "head", f.head().Head, last)
	f.renew(store.OK)
	f.finish(f.end(store.StateCompleted), store.Idle)
	f.reinstate(a, store.Ended)
	equal(f, "run", f.head().Run.Run, "")
	equal(f, "messages", f.head().Messages, 3)
}

func reinstateEnded(f *fixture) {
	f.start("q1")
	f.enqueue("q2", "q3", "q4")
	must[store.CancelResult](f)(f.store.CancelQueued(f.ctx(), f.sid, f.guard, "q2"))
	must[store.WithdrawResult](f)(f.store.Withdraw(f.ctx(), f.sid, "q3", "run-q3"))
	f.reinstate(f.lost("q2", 0), store.Ended)
	f.reinstate(f.lost("q3", 0), store.Ended)
	other := f.lost("q1", 5)
	other.Item.Run = "another attempt"
	f.reinstate(other, store.Ended)
	f.finish(f.end(store.StateCompleted), store.Waiting)
	f.reinstate(f.lost("q1", 5), store.Ended)
	foreign := f.lost("q4", 0)
	foreign.Guard.Owner = "mallory"
	f.reinstate(foreign, store.Ended)
	equal(f, "code", must[store.Code](f)(f.store.DropQueue(f.ctx(), f.sid, f.guard, f.later())), store.OK)
	equal(f, "code", must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, "op", f.later())), store.Done)
	f.reinstate(f.lost("q5", 0), store.Ended)
	equal(f, "exists", f.head().Exists(), false)
}

func reinstateBusy(f *fixture) {
	f.start("q1")
	f.enqueue("q2")
	a := f.lost("q2", 3)
	a.Record.Token = "n2/b/t"
	equal(f, "holder", f.reinstate(a, store.Busy).Token, f.token)
	equal(f, "code", must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, "op", f.later())), store.Busy)
	f.reinstate(a, store.Ended)                    // deletion goes before
	f.reinstate(f.lost("q1", 5, "more"), store.OK) // but the run has still to end
	f.abort("run-q1", store.OK)
	f.finish(f.end(store.StateAborted), store.Purged)
}

func reinstateFenced(f *fixture) {
	f.start("q1")
	a := f.lost("q1", 5)
	a.Record.Token, a.Record.Fence, a.Record.Node = "n2/b/t", 9, "n2"
	f.reinstate(a, store.Fenced)
	if !f.orphan() {
		return
	}
	a.Record.Fence = f.head().Run.Fence
	f.reinstate(a, store.Fenced)
	a.Record.Fence++
	f.token = a.Record.Token
	f.reinstate(a, store.OK)
	r := f.head().Run
	equal(f, "record", fmt.Sprint(r.Token, r.Fence, r.Node, r.Alive), fmt.Sprint("n2/b/t", a.Record.Fence, "n2", true))
	f.append(f.batch("x"), store.OK)
}

func reinstateAborted(f *fixture) {
	f.start("q1")
	f.abort("run-q1", store.OK)
	f.reinstate(f.lost("q1", 2), store.OK)
	equal(f, "abort", f.append(f.batch("x"), store.OK).Abort, true)
	f.finish(f.end(store.StateCompleted), store.Aborting)
	f.finish(f.end(store.StateAborted), store.Idle)
	a := f.lost("q2", 0)
	a.Record.Abort = true
	f.reinstate(a, store.OK)
	f.abort("run-q2", store.Already)
	f.finish(f.end(store.StateAborted), store.Idle)
}

func reinstateOtherAttempt(f *fixture) {
	f.start("q1")
	second := f.args("q2", true)
	second.Item.Run = "second"
	f.submit(second, store.Queued)
	f.finish(f.end(store.StateCompleted), store.Waiting)
	f.reinstate(f.lost("q2", 1), store.OK)
	equal(f, "queue", f.head().QueueLength, 0)
	equal(f, "run", f.known("q2", store.StateActive).Run, "run-q2")
	equal(f, "withdraw", must[store.WithdrawResult](f)(f.store.Withdraw(f.ctx(), f.sid, "q2", "second")).Code, store.Kept)
	f.finish(f.end(store.StateCompleted), store.Idle)
}

func reinstateStarting(f *fixture) {
	a := f.lost("q1", 0)
	a.Record.Phase = store.PhaseStarting
	f.reinstate(a, store.OK)
	if !f.orphan() {
		return
	}
	res := f.takeOver("n2/b/t", nil, store.Resumed)
	equal(f, "rerun", res.Rerun, true)
	equal(f, "row", string(res.Row.Data), `{"text":"q1"}`)
	equal(f, "options", string(res.Item.Options), "{}")
	if f.NewGeneration == nil {
		return
	}
	f.NewGeneration()
	f.orphan()
	equal(f, "rerun", f.takeOver("n3/b/t", nil, store.Resumed).Rerun, false)
}

func reinstateReaders(f *fixture) {
	sub := f.start("q1")
	last := f.append(f.batch("a", "b"), store.OK).Last
	res := f.reinstate(f.lost("q1", 4), store.OK)
	equal(f, "one gap", res.Last.Offset, last.Offset+1)
	entries := f.read(sub.Incarnation, store.Origin, store.OK)
	equal(f, "up to the break", kinds(entries), "peer ev ev")
	f.read(sub.Incarnation, last, store.Diverged)
	equal(f, "behind the gap", len(f.read(sub.Incarnation, res.Last, store.OK)), 0)
	f.append(f.batch("c"), store.OK)
	equal(f, "behind the gap", kinds(f.read(sub.Incarnation, res.Last, store.OK)), "ev")
	f.read(sub.Incarnation, last, store.Diverged)
	snap := f.snapshot()
	equal(f, "covered", snap.Covered, res.Last.Offset)
	equal(f, "entries", kinds(snap.Entries), "ev")
}

// fallenFinishes: the store forgets that two runs have ended and a third has
// begun. Their owner ends them again, in order, and goes on with the third.
func fallenFinishes(f *fixture) {
	if f.Mark == nil {
		return
	}
	f.start("q1")
	f.enqueue("q2", "q3", "q4")
	mark := f.Mark(f.T)
	var kept []store.FinishArgs
	for range 2 {
		f.started()
		a := f.end(store.StateCompleted, "gateway")
		kept = append(kept, a)
		f.finish(a, store.Next)
	}
	f.append(f.batch("third"), store.OK)
	seq := f.seq

	f.FallBack(f.T, mark)
	for i, qid := range []string{"q1", "q2"} {
		a := kept[i]
		a.Pop = nil
		f.reinstate(f.lost(qid, a.Seq-1), store.OK)
		res := f.finish(a, store.Waiting)
		equal(f, "again", f.finish(a, store.Waiting).Last, res.Last)
		f.reinstate(f.lost(qid, a.Seq-1), store.Ended)
	}
	f.reinstate(f.lost("q3", seq), store.OK)
	f.append(f.batch("goes on"), store.OK)
	equal(f, "texts", f.texts(), `{"text":"q1"}{"text":"answer"}{"text":"q2"}{"text":"answer"}{"text":"q3"}`)
	equal(f, "queue", f.snapshot().Queue[0].QID, "q4")
	equal(f, "next", f.finish(f.end(store.StateCompleted, "gateway"), store.Next).Item.QID, "q4")
}

func fallenRenew(f *fixture) {
	if f.Mark == nil {
		return
	}
	empty := f.Mark(f.T)
	f.start("q0")
	f.finish(f.end(store.StateCompleted), store.Idle)
	idle := f.Mark(f.T)
	f.token = "n1/boot/t2"
	f.start("q1")
	f.enqueue("q2")
	begun := f.Mark(f.T)
	f.append(f.batch("x"), store.OK)
	before := f.store.Generation()
	f.FallBack(f.T, begun)
	equal(f, "as", f.renew(store.Back).Seq, 0)
	f.append(f.batch("y"), store.Back)
	f.FallBack(f.T, idle)
	equal(f, "state", f.renew(store.Fenced).State, "")
	f.FallBack(f.T, empty)
	f.renew(store.Lost)
	f.append(f.batch("y"), store.Lost)
	if f.NewGeneration != nil {
		f.NewGeneration()
		if f.store.Generation() <= before {
			f.Fatalf("generation %d after a new process has come, %d before", f.store.Generation(), before)
		}
	}
}

func fallenPosition(f *fixture) {
	if f.Mark == nil {
		return
	}
	sub := f.start("q1")
	mark := f.Mark(f.T)
	lost := f.append(f.batch("a", "b", "c"), store.OK).Last
	f.FallBack(f.T, mark)
	f.read(sub.Incarnation, lost, store.Diverged)
	res := f.reinstate(f.lost("q1", 1), store.OK)
	f.read(sub.Incarnation, lost, store.Diverged)
	f.append(f.batch("d", "e", "f"), store.OK)
	f.read(sub.Incarnation, lost, store.Diverged)
	f.read(sub.Incarnation, sub.Last, store.Diverged)
	equal(f, "on", kinds(f.read(sub.Incarnation, res.Last, store.OK)), "ev ev ev")
}

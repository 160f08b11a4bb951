package storetest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

const rounds = 25

// parallel runs functions at the same moment and waits for them.
func parallel(run ...func()) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for _, r := range run {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			r()
		}()
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// round gives each repetition a session of its own.
func (f *fixture) round(i int) {
	f.sid, f.token, f.seq = fmt.Sprintf("r-%d", i), fmt.Sprintf("n1/b/%d", i), 0
}

func testConcurrent(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"cancel and pop: one of them wins (H36)": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				sub := f.start("q1")
				f.enqueue("q2")
				end := f.end(store.StateCompleted, "gateway")
				var c store.CancelResult
				var fin store.FinishResult
				parallel(
					func() { c, _ = f.store.CancelQueued(f.ctx(), f.sid, f.guard, "q2") },
					func() { fin, _ = f.store.Finish(f.ctx(), end) },
				)
				popped, cancelled := fin.Code == store.Next, c.Code == store.Cancelled
				if popped == cancelled {
					f.Fatalf("finish %s, cancel %s", fin.Code, c.Code)
				}
				f.check(sub.Incarnation)
			}
		},
		"abort and end: one ending (H14, ABT-06)": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				sub := f.start("q1")
				f.enqueue("q2")
				end := f.end(store.StateCompleted, "gateway")
				aborted := end
				aborted.Outcome = store.StateAborted
				var fin store.FinishResult
				var ab store.AbortResult
				parallel(
					func() { fin, _ = f.store.Finish(f.ctx(), end) },
					func() {
						ab, _ = f.store.RequestAbort(f.ctx(), f.sid, f.guard, "run-q1", "", store.NewEntry{Name: "abort.started"})
					},
				)
				switch {
				case fin.Code == store.Aborting && ab.Code == store.OK:
					f.finish(aborted, store.Next)
				case fin.Code == store.Next && ab.Code == store.Ended:
				default:
					f.Fatalf("finish %s, abort %s", fin.Code, ab.Code)
				}
				f.check(sub.Incarnation)
			}
		},
		"the same message from several sockets: one run (QUE-04)": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				codes := make([]store.Code, 4)
				var calls []func()
				for k := range codes {
					a := f.args("q1", true)
					a.Item.Run = fmt.Sprintf("run-%d", k)
					a.Start.Token = fmt.Sprintf("tok-%d", k)
					calls = append(calls, func() {
						res, _ := f.Nodes[k%len(f.Nodes)].Submit(f.ctx(), a)
						codes[k] = res.Code
					})
				}
				parallel(calls...)
				slices.Sort(codes)
				equal(f, "codes", fmt.Sprint(codes), "[repeat repeat repeat started]")
				equal(f, "rows", len(f.rows()), 1)
			}
		},
		"withdraw and a resend: the message is not lost (H5)": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				f.start("q1")
				f.enqueue("q2")
				resent := f.args("q2", true)
				resent.Item.Run = "second"
				var w store.WithdrawResult
				var r store.SubmitResult
				parallel(
					func() { w, _ = f.store.Withdraw(f.ctx(), f.sid, "q2", "run-q2") },
					func() { r, _ = f.store.Submit(f.ctx(), resent) },
				)
				kept := w.Code == store.Kept && r.Code == store.Repeat
				again := w.Code == store.Done && r.Code == store.Queued
				if !kept && !again {
					f.Fatalf("withdraw %s, resend %s", w.Code, r.Code)
				}
				equal(f, "queue", f.head().QueueLength, 1)
			}
		},
		"a message in the closing moment is run (QUE-06)": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				sub := f.start("q1")
				end := f.end(store.StateCompleted, "gateway")
				late := f.args("q2", true)
				late.Start.Token = "n1/b/other"
				var r store.SubmitResult
				var fin store.FinishResult
				parallel(
					func() { r, _ = f.store.Submit(f.ctx(), late) },
					func() { fin, _ = f.store.Finish(f.ctx(), end) },
				)
				popped := r.Code == store.Queued && fin.Code == store.Next
				began := r.Code == store.Started && fin.Code == store.Idle
				if !popped && !began {
					f.Fatalf("submit %s, finish %s", r.Code, fin.Code)
				}
				equal(f, "run", f.head().Run.Run, "run-q2")
				f.check(sub.Incarnation)
			}
		},
		"one of many takers wins": func(f *fixture) {
			for i := range rounds {
				f.round(i)
				sub := f.submit(f.args("q1", false), store.Queued)
				codes := make([]store.Code, 3)
				var calls []func()
				for k := range codes {
					calls = append(calls, func() {
						res, _ := f.Nodes[k%len(f.Nodes)].TakeOver(f.ctx(), store.TakeOverArgs{
							SID: f.sid, Token: fmt.Sprintf("t%d", k), Node: "n", TTL: time.Minute,
						})
						codes[k] = res.Code
					})
				}
				parallel(calls...)
				slices.Sort(codes)
				equal(f, "codes", fmt.Sprint(codes), "[held held next]")
				f.check(sub.Incarnation)
			}
		},
		"every operation against every other": testPairs,
	})
}

// operations are the calls of a busy session, each with its own arguments.
func (f *fixture) operations() map[string]func() error {
	batch, end, aborted := f.batch("x"), f.end(store.StateCompleted, "gateway"), f.end(store.StateAborted)
	batch.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("{}")}}
	submit, again, note := f.args("q4", true), f.args("q2", true), store.NoteArgs{
		SID: f.sid, Guard: f.guard, OpID: "op-note", Events: []store.NewEntry{{Name: "n"}}, Rows: batch.Rows,
	}
	again.Item.Run = "second"
	title := "T"
	ctx, sid, guard, token, run, seq := f.ctx(), f.sid, f.guard, f.token, f.run, f.seq
	later := f.later()
	lost, buried := f.lost("q1", 5, "more"), f.lost("q3", 0)
	return map[string]func() error{
		"Reinstate": func() error { _, err := f.store.Reinstate(ctx, lost); return err },
		"Bury": func() error {
			_, err := f.store.Bury(ctx, store.BuryArgs{SID: sid, Guard: guard, Item: buried.Item, Rows: buried.Rows})
			return err
		},
		"Submit":   func() error { _, err := f.store.Submit(ctx, submit); return err },
		"Repeat":   func() error { _, err := f.store.Submit(ctx, again); return err },
		"Withdraw": func() error { _, err := f.store.Withdraw(ctx, sid, "q2", "run-q2"); return err },
		"Cancel":   func() error { _, err := f.store.CancelQueued(ctx, sid, guard, "q3"); return err },
		"Append":   func() error { _, err := f.store.Append(ctx, batch); return err },
		"Finish":   func() error { _, err := f.store.Finish(ctx, end); return err },
		"Aborted":  func() error { _, err := f.store.Finish(ctx, aborted); return err },
		"Renew":    func() error { _, err := f.store.Renew(ctx, sid, token, run, seq, time.Minute); return err },
		"Release":  func() error { _, err := f.store.Release(ctx, sid, token, run, seq, nil); return err },
		"Abort": func() error {
			_, err := f.store.RequestAbort(ctx, sid, guard, run, "", store.NewEntry{Name: "abort.started"})
			return err
		},
		"TakeOver": func() error {
			_, err := f.store.TakeOver(ctx, store.TakeOverArgs{SID: sid, Token: "taker", Node: "n2", TTL: time.Minute})
			return err
		},
		"Note": func() error { _, err := f.store.Note(ctx, note); return err },
		"Update": func() error {
			_, _, err := f.store.Update(ctx, store.UpdateArgs{SID: sid, Guard: guard, Patch: store.MetaPatch{Title: &title}})
			return err
		},
		"DropQueue": func() error { _, err := f.store.DropQueue(ctx, sid, guard, later); return err },
		"Delete":    func() error { _, err := f.store.Delete(ctx, sid, guard, "op-del", later); return err },
		"Clear":     func() error { _, err := f.store.Clear(ctx, sid, guard, "op-clear", later); return err },
	}
}

func testPairs(f *fixture) {
	names := slices.Sorted(maps.Keys(f.operations()))
	n := 0
	for i, a := range names {
		for _, b := range names[i:] {
			n++
			f.round(n)
			sub := f.start("q1")
			f.enqueue("q2", "q3")
			all := f.operations()
			var errs [2]error
			parallel(func() { errs[0] = all[a]() }, func() { errs[1] = all[b]() })
			if errs[0] != nil || errs[1] != nil {
				f.Fatalf("%s and %s: %v, %v", a, b, errs[0], errs[1])
			}
			if !f.check(sub.Incarnation) {
				f.Fatalf("%s and %s leave a session that is not whole", a, b)
			}
		}
	}
}

// story reads what readers get of a log: from the origin on, and behind a break
// of the chain from the latest snapshot on.
func (f *fixture) story(ep string) (entries []store.Entry, snap store.Snapshot) {
	f.Helper()
	snap = f.snapshot()
	after := store.Origin
	for {
		res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, ep, after, 0))
		if res.Code == store.Diverged {
			return append(entries, snap.Entries...), snap
		}
		equal(f, "ReadLog", res.Code, store.OK)
		if len(res.Entries) == 0 {
			return entries, snap
		}
		entries = append(entries, res.Entries...)
		after = entries[len(entries)-1].Position()
	}
}

// check looks whether a session is whole: a dense log with a chain that is not
// broken but by a gap, one ending a run, the queue as its last announcement says, ids of rows in
// order, and nothing that is busy with nothing.
func (f *fixture) check(ep string) bool {
	f.Helper()
	entries, snap := f.story(ep)
	prev, ends := store.Origin, map[string]int{}
	for i := range entries {
		e := &entries[i]
		if snap.Session.Run.Run != "" && e.Offset == snap.Covered+1 && e.Offset > prev.Offset+1 {
			prev = store.Position{Offset: snap.Covered, Stamp: e.Prev}
		}
		if e.Offset != prev.Offset+1 || e.Prev != prev.Stamp {
			f.Errorf("the log's chain is broken at %d", e.Offset)
			return false
		}
		prev = e.Position()
		if e.Kind == store.KindEnd {
			ends[e.Run]++
		}
	}
	for run, n := range ends {
		if n != 1 {
			f.Errorf("%d endings of %s", n, run)
			return false
		}
	}
	h := &snap.Session
	if !h.Exists() {
		return true
	}
	if behind := prev.Offset < h.Head.Offset; (behind && f.store.Generation() == 0) || (!behind && h.Head != prev) || h.QueueLength != len(snap.Queue) || ends[h.Run.Run] != 0 {
		f.Errorf("root and log differ: %+v", h)
		return false
	}
	if (h.Run.Run == "") && h.Run.Token != "" {
		f.Errorf("a tenure without a run")
		return false
	}
	last := int64(0)
	for _, r := range f.rows() {
		if r.ID <= last || r.ID > h.LastRow {
			f.Errorf("row ids out of order")
			return false
		}
		last = r.ID
	}
	return true
}

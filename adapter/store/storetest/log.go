package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func (f *fixture) readLog(ep string, after store.Position, want store.Code) store.ReadResult {
	f.Helper()
	res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, ep, after, 0))
	equal(f, "ReadLog", res.Code, want)
	return res
}

func testLog(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"a position is checked by its stamp (H26)": func(f *fixture) {
			sub := f.start("q1")
			last := f.append(f.batch("a", "b"), store.OK).Last
			equal(f, "at the head", len(f.readLog(sub.Incarnation, last, store.OK).Entries), 0)
			equal(f, "behind", len(f.readLog(sub.Incarnation, sub.Last, store.OK).Entries), 2)
			f.readLog(sub.Incarnation, store.Position{Offset: last.Offset, Stamp: "x"}, store.Diverged)
			f.readLog(sub.Incarnation, store.Position{Offset: sub.Last.Offset, Stamp: "x"}, store.Diverged)
			f.readLog(sub.Incarnation, store.Position{Offset: last.Offset + 1, Stamp: last.Stamp}, store.Diverged)
			f.readLog("another", sub.Last, store.Diverged)
			f.sid = "unknown"
			f.readLog(sub.Incarnation, store.Origin, store.Diverged)
		},
		"one answer is bounded": func(f *fixture) {
			sub := f.start("q1")
			for range 300 {
				f.append(f.batch("d"), store.OK)
			}
			equal(f, "page", len(f.readLog(sub.Incarnation, store.Origin, store.OK).Entries), 256)
			equal(f, "all", len(f.log(sub.Incarnation, store.Origin)), 301)
			res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, sub.Incarnation, store.Origin, 5))
			equal(f, "limit", len(res.Entries), 5)
		},
		"a snapshot of nothing": func(f *fixture) {
			snap := f.snapshot()
			equal(f, "exists", snap.Session.Exists(), false)
			equal(f, "exists", f.head().Exists(), false)
		},
		"a snapshot and what follows it are the whole (H17)": func(f *fixture) {
			sub := f.start("q1")
			f.append(f.batch("a"), store.OK)
			f.enqueue("q2")
			snap := f.snapshot()
			equal(f, "entries", kinds(snap.Entries), "peer ev queue")
			f.append(f.batch("b"), store.OK)
			after := f.log(sub.Incarnation, snap.Session.Head)
			equal(f, "after", kinds(after), "ev")
			f.finish(f.end(store.StateCompleted), store.Waiting)
			snap = f.snapshot()
			equal(f, "no run", len(snap.Entries), 0)
			equal(f, "queue", len(snap.Queue), 1)
		},
		"hints tell of every change": func(f *fixture) {
			var mu sync.Mutex
			var hints []store.Hint
			arrived := make(chan struct{}, 64)
			sub, err := f.store.Subscribe(f.ctx(), f.sid, func(h store.Hint) {
				mu.Lock()
				defer mu.Unlock()
				hints = append(hints, h)
				arrived <- struct{}{}
			})
			f.noError(err)
			wait := func() store.Hint {
				f.Helper()
				select {
				case <-arrived:
				case <-f.ctx().Done():
					f.Fatal("no hint")
				}
				mu.Lock()
				defer mu.Unlock()
				return hints[len(hints)-1]
			}
			equal(f, "first", wait().Established, true)
			res := f.start("q1")
			h := wait()
			equal(f, "incarnation", h.Incarnation, res.Incarnation)
			equal(f, "head", h.Head, res.Last)
			f.abort("run-q1", store.OK)
			equal(f, "abort", wait().Abort, true)
			f.finish(f.end(store.StateAborted), store.Idle)
			wait()
			must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, "op", f.later()))
			equal(f, "deleted", wait().Deleted, true)
			sub.Close()
			f.start("q2")
			mu.Lock()
			defer mu.Unlock()
			equal(f, "after Close", len(hints), 5)
		},
		"the log of an idle session runs out without a gap (H20)": func(f *fixture) {
			if f.Pass == nil {
				return
			}
			sub := f.start("q1")
			head := f.finish(f.end(store.StateCompleted), store.Idle).Last
			f.Pass(store.IdleLogTTL * 2)
			equal(f, "asleep", len(f.readLog(sub.Incarnation, head, store.OK).Entries), 0)
			next := f.start("q2")
			equal(f, "continues", next.Before, head)
			equal(f, "awake", kinds(f.log(sub.Incarnation, head)), "peer")
			f.readLog(sub.Incarnation, sub.Last, store.Behind)
		},
	})
}

func testRows(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"pages from the newest": func(f *fixture) {
			f.start("q1")
			for i := range 9 {
				b := f.batch()
				b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte(fmt.Sprintf("%04d", i))}}
				f.append(b, store.OK)
				if i == 4 {
					b := f.batch()
					b.Patch.Phase = store.PhaseSent
					f.append(b, store.OK)
				}
			}
			gen := f.head().Generation
			page := func(before int64, limit, size, first, n int, more bool) {
				f.Helper()
				code, rows, m, err := f.store.Rows(f.ctx(), f.sid, gen, before, limit, size)
				f.noError(err)
				equal(f, "code", code, store.OK)
				equal(f, "rows", len(rows), n)
				equal(f, "first", rows[0].ID, int64(first))
				equal(f, "last", rows[n-1].ID, int64(first+n-1))
				equal(f, "more", m, more)
			}
			page(0, 100, 1<<20, 1, 10, false)
			page(0, 10, 1<<20, 1, 10, false)
			page(0, 3, 1<<20, 8, 3, true)
			page(8, 3, 1<<20, 5, 3, true)
			page(5, 100, 1<<20, 1, 4, false)
			page(0, 100, 9, 9, 2, true)
			page(0, 100, 1, 10, 1, true)
			page(7, 100, 12, 4, 3, true)
			page(99, 2, 1<<20, 9, 2, true)
		},
		"of another generation are stale (H34)": func(f *fixture) {
			stale := func(gen int64) {
				f.Helper()
				code, _, _, err := f.store.Rows(f.ctx(), f.sid, gen, 0, 10, 1<<20)
				f.noError(err)
				equal(f, "code", code, store.Stale)
			}
			stale(1)
			f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			h := f.head()
			stale(h.Generation + 1)
			must[store.Code](f)(f.store.Clear(f.ctx(), f.sid, f.guard, "op", f.later()))
			stale(h.Generation)
			equal(f, "rows", len(f.rows()), 0)
			equal(f, "messages", f.head().Messages, int64(0))
			equal(f, "usage", f.head().Usage, store.Usage{})
			equal(f, "ids go on", f.start("q2").Row.ID, h.LastRow+1)
		},
	})
}

package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func (f *fixture) note(a store.NoteArgs, want store.Code) {
	f.Helper()
	equal(f, "Note", must[store.Code](f)(f.store.Note(f.ctx(), a)), want)
}

func (f *fixture) update(a store.UpdateArgs, want store.Code) store.Session {
	f.Helper()
	a.SID, a.Guard = f.sid, f.guard
	code, s, err := f.store.Update(f.ctx(), a)
	f.noError(err)
	equal(f, "Update", code, want)
	return s
}

func (f *fixture) delete(op string, want store.Code) {
	f.Helper()
	equal(f, "Delete", must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, op, f.later())), want)
}

func testSessions(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"Head of several, some unknown": func(f *fixture) {
			f.start("q1")
			heads := must[[]store.Session](f)(f.store.Head(f.ctx(), "no", f.sid, "none"))
			equal(f, "heads", len(heads), 3)
			equal(f, "unknown", heads[0].Exists(), false)
			equal(f, "known", heads[1].Title, "Title of s-1")
			equal(f, "owner", heads[1].Owner, "alice")
			equal(f, "sid", heads[2].SID, "none")
		},
		"Note": func(f *fixture) {
			a := store.NoteArgs{
				SID: f.sid, Guard: f.guard, OpID: "op1", Stamp: "stampx",
				Rows:   []store.NewRow{{Role: store.RoleCommand, Data: []byte("cmd")}},
				Events: []store.NewEntry{{Kind: store.KindEnd, Name: "session.command"}},
			}
			f.note(a, store.None)
			a.Create = &store.Attrs{Source: "cli"}
			f.note(a, store.OK)
			f.note(a, store.Repeat)
			h := f.head()
			entries := f.log(h.Incarnation, store.Origin)
			equal(f, "its own kind only", kinds(entries), "note")
			equal(f, "row", f.rows()[0].Role, store.RoleCommand)
			f.start("q1")
			a.OpID = "op2"
			f.note(a, store.OK)
			equal(f, "in a run", len(f.rows()), 3)
			a.Guard.Owner = "mallory"
			f.note(a, store.Forbidden)
			f.delete("d1", store.Busy)
			a.Guard, a.OpID = f.guard, "op3"
			f.note(a, store.Deleting)
		},
		"Update under its expectations": func(f *fixture) {
			title, manual := "New", store.TitleManual
			f.update(store.UpdateArgs{Patch: store.MetaPatch{Title: &title}}, store.None)
			f.start("q1")
			v := f.head().MetaVersion
			s := f.update(store.UpdateArgs{
				Patch:           store.MetaPatch{Title: &title, TitleSource: &manual},
				ExpectAutoTitle: true, ExpectMetaVersion: v, NotAfter: f.later(),
				Events: []store.NewEntry{{Name: "session.title.updated"}}, Stamp: "stampy",
			}, store.OK)
			equal(f, "title", s.Title, "New")
			equal(f, "version", s.MetaVersion, v+1)
			other := "Other"
			s = f.update(store.UpdateArgs{Patch: store.MetaPatch{Title: &other}, ExpectAutoTitle: true}, store.Changed)
			equal(f, "title", s.Title, "New")
			f.update(store.UpdateArgs{Patch: store.MetaPatch{Title: &other}, ExpectMetaVersion: v}, store.Changed)
			equal(f, "owner hears", f.append(f.batch("x"), store.OK).MetaVersion, v+1)
			if f.NotAfter {
				f.update(store.UpdateArgs{Patch: store.MetaPatch{Title: &other}, NotAfter: f.store.Now() - 1}, store.Expired)
			}
			f.guard.Owner = "mallory"
			f.update(store.UpdateArgs{Patch: store.MetaPatch{Title: &other}}, store.Forbidden)
		},
		"Clear": func(f *fixture) {
			c := func(op string, want store.Code) {
				f.Helper()
				equal(f, "Clear", must[store.Code](f)(f.store.Clear(f.ctx(), f.sid, f.guard, op, f.later())), want)
			}
			c("op1", store.None)
			f.start("q1")
			c("op1", store.Busy)
			f.finish(f.end(store.StateCompleted), store.Idle)
			head := f.head().Head
			c("op1", store.OK)
			equal(f, "offsets stay", f.head().Head, head)
			f.start("q2")
			f.finish(f.end(store.StateCompleted), store.Idle)
			c("op1", store.OK)
			equal(f, "a repeated clear clears nothing", len(f.rows()), 2)
			a := f.args("q1", true)
			f.submit(a, store.Repeat)
			if f.NotAfter {
				late := must[store.Code](f)(f.store.Clear(f.ctx(), f.sid, f.guard, "op2", f.store.Now()-1))
				equal(f, "late", late, store.Expired)
			}
			f.guard.Owner = "mallory"
			c("op3", store.Forbidden)
		},
		"List": testList,
		"an idle session runs out as a whole, a busy one never (H20)": func(f *fixture) {
			if f.Retention == 0 {
				return
			}
			f.start("q1")
			f.Pass(2 * f.Retention)
			equal(f, "busy", f.head().Exists(), true)
			equal(f, "rows", len(f.rows()), 1)
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.Pass(f.Retention - time.Minute)
			f.note(store.NoteArgs{SID: f.sid, Guard: f.guard, OpID: "n", Rows: []store.NewRow{{Role: store.RoleCommand}}}, store.OK)
			f.Pass(f.Retention - time.Minute)
			equal(f, "touched", len(f.rows()), 3)
			f.Pass(2 * time.Minute)
			equal(f, "idle", f.head().Exists(), false)
			equal(f, "row ids begin anew", f.start("q1").Row.ID, int64(1))
			f.Pass(2 * f.Retention)
			equal(f, "rows", len(f.rows()), 1)
		},
	})
}

func testList(f *fixture) {
	for i := range 25 {
		f.sid = fmt.Sprintf("s-%02d", i)
		f.token = "tok" + f.sid
		if i%5 == 4 {
			f.guard.Owner = "bob"
		}
		f.guard.Profile = []string{"default", "work"}[i%2]
		f.start("q1")
		f.finish(f.end(store.StateCompleted), store.Idle)
		f.guard.Owner = "alice"
		if f.Pass != nil {
			f.Pass(time.Second)
		}
	}
	archived := true
	f.sid, f.guard.Profile = "s-00", "default"
	f.update(store.UpdateArgs{Patch: store.MetaPatch{Archived: &archived}}, store.OK)
	f.sid = "s-02"
	f.delete("op", store.Done)
	count := func(what string, q store.ListQuery, want int) {
		f.Helper()
		seen := map[string]bool{}
		last := int64(1 << 62)
		for {
			page := must[store.ListPage](f)(f.store.List(f.ctx(), q))
			for i := range page.Sessions {
				s := &page.Sessions[i]
				if seen[s.SID] || s.Updated > last || s.Incarnation == "" {
					f.Fatalf("%s: %s listed twice or out of order", what, s.SID)
				}
				seen[s.SID], last = true, s.Updated
			}
			if page.Next == "" {
				break
			}
			q.Before = page.Next
		}
		equal(f, what, len(seen), want)
	}
	count("all", store.ListQuery{Limit: 4}, 23)
	count("with archived", store.ListQuery{Archived: true}, 24)
	count("of alice", store.ListQuery{Owner: "alice", Limit: 3}, 18)
	count("of bob at work", store.ListQuery{Owner: "bob", Profiles: []string{"work"}, Limit: 1}, 2)
	count("no profile", store.ListQuery{Profiles: []string{}}, 0)
	count("by title", store.ListQuery{Text: "OF S-1", Limit: 4}, 10)
	count("by preview", store.ListQuery{Text: "preview q1"}, 23)
	count("nothing", store.ListQuery{Text: "unheard of"}, 0)
	if _, err := f.store.List(f.ctx(), store.ListQuery{Before: "!"}); err == nil {
		f.Fatal("a made-up cursor was accepted")
	}
}

func testDelete(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"of an idle session": func(f *fixture) {
			f.delete("op0", store.None)
			sub := f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.delete("op1", store.Done)
			f.delete("op1", store.Done)
			f.delete("op2", store.None)
			equal(f, "exists", f.head().Exists(), false)
			equal(f, "snapshot", f.snapshot().Session.Incarnation, "")
			b := f.batch("late")
			f.append(b, store.Lost)
			f.takeOver("n2/b/t", nil, store.Idle)
			f.note(store.NoteArgs{SID: f.sid, Guard: f.guard, OpID: "n"}, store.None)
			equal(f, "the ending can be read", kinds(f.log(sub.Incarnation, sub.Last)), "ev end")
		},
		"the ledger outlives it, the owner does not (H7, H18)": func(f *fixture) {
			old := f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.delete("op1", store.Done)
			a := f.args("q1", true)
			a.Item.Run = "resent"
			equal(f, "state", f.submit(a, store.Repeat).State, store.StateCompleted)
			f.guard.Owner = "bob"
			next := f.start("q2")
			if next.Incarnation == old.Incarnation {
				f.Fatal("the new session has the old incarnation")
			}
			equal(f, "row ids begin anew", next.Row.ID, int64(1))
			equal(f, "offsets begin anew", next.Before, store.Origin)
			equal(f, "rows", len(f.rows()), 1)
			f.readLog(old.Incarnation, old.Last, store.Diverged)
			f.guard.Owner = "alice"
			f.delete("op2", store.Forbidden)
		},
		"of a busy session waits for its run (H19)": func(f *fixture) {
			sub := f.start("q1")
			f.enqueue("q2")
			before := f.head().Head
			f.delete("op1", store.Busy)
			f.delete("op1", store.Busy)
			equal(f, "log", kinds(f.log(sub.Incarnation, before)), "queue")
			equal(f, "state", f.cancel("q2", store.NotQueued).State, store.StateCancelled)
			f.submit(f.args("q3", true), store.Deleting)
			equal(f, "deleting", f.head().Deleting, true)
			f.abort("run-q1", store.OK)
			f.append(f.batch("late text"), store.OK)
			a := f.end(store.StateAborted, "gateway")
			f.finish(a, store.Purged)
			f.finish(a, store.Purged)
			equal(f, "exists", f.head().Exists(), false)
			equal(f, "log", kinds(f.log(sub.Incarnation, before)), "queue abort ev ev end")
			f.submit(f.args("q2", true), store.Repeat)
			f.start("q4")
			equal(f, "rows", len(f.rows()), 1)
		},
		"of a busy session without owner": func(f *fixture) {
			f.start("q1")
			f.delete("op1", store.Busy)
			f.abort("run-q1", store.OK)
			if !f.orphan() {
				return
			}
			f.takeOver("n2/b/t", nil, store.Resumed)
			f.finish(f.end(store.StateAborted), store.Purged)
			equal(f, "exists", f.head().Exists(), false)
		},
		"of a queue that nobody works on": func(f *fixture) {
			f.submit(f.args("q1", false), store.Queued)
			f.delete("op1", store.Done)
			equal(f, "exists", f.head().Exists(), false)
			equal(f, "state", f.submit(f.args("q1", true), store.Repeat).State, store.StateCancelled)
		},
		"a tombstone runs out": func(f *fixture) {
			if f.Pass == nil {
				return
			}
			f.start("q1")
			f.finish(f.end(store.StateCompleted), store.Idle)
			f.delete("op1", store.Done)
			f.withdraw("q9", "run-q9", store.Done)
			f.Pass(store.TombstoneTTL + time.Second)
			f.submit(f.args("q1", true), store.Started)
			f.submit(f.args("q9", true), store.Queued)
			equal(f, "rows", len(f.rows()), 1)
		},
		"late": func(f *fixture) {
			if !f.NotAfter {
				return
			}
			f.start("q1")
			c := must[store.Code](f)(f.store.Delete(f.ctx(), f.sid, f.guard, "op", f.store.Now()-1))
			equal(f, "Delete", c, store.Expired)
		},
	})
}

// Package storetest is the conformance suite of package store: every
// implementation passes it. Test names carry the numbers of the hazards of
// contract section 11 that they guard against.
package storetest

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Harness gives the suite a fresh, empty store. What a store defines as a no-op
// is told by flags; the suite assumes nothing else about it, no clock either.
type Harness struct {
	// Nodes are independent clients of the same store, at least one. A store that
	// only one process can use has one.
	Nodes []store.Store
	// Limits are those that the store was opened with.
	Limits store.Limits

	// Leases: leases end by time. Without it only a restart makes an orphan.
	Leases bool
	// NotAfter: a request executed after its NotAfter answers Expired.
	NotAfter bool
	// Pass lets at least d of the store's time pass. Nil: time cannot be moved in
	// a test; the cases that need it are left out.
	Pass func(d time.Duration)
	// Retention is how long an idle session is kept. Zero: for ever, as far as this
	// suite can tell. Needs Pass.
	Retention time.Duration
	// NewGeneration puts a new server process in the place of the one that serves
	// the store, with all of its data. Nil: there is no such process.
	NewGeneration func()
	// Mark and FallBack let the store lose writes that it has acknowledged: FallBack
	// puts all of it back to what it was when Mark answered mark, which may be used
	// more than once. No call is under way meanwhile. With Redis Mark is a DUMP and
	// PTTL of every key of the test's prefix, and FallBack a deletion of all keys of
	// the prefix and a RESTORE of those. FallBack may but need not change the
	// generation; what needs that calls NewGeneration. Nil: writes cannot be lost in
	// a test; the cases that need it are left out.
	Mark     func(t *testing.T) (mark any)
	FallBack func(t *testing.T, mark any)
	// Orphan makes the owner of a session look dead without waiting for its
	// lease, e.g. by a restart. Nil: Pass over the lease is used.
	Orphan func(sid string)
	// Reader is the client to be used after Orphan, which may replace Nodes.
	Reader func() store.Store
}

// Open makes a fresh store for one test and closes it with the test.
type Open func(t *testing.T) Harness

// Limits are small limits that make a suite fast; a harness should use them.
func Limits() store.Limits {
	return store.Limits{
		QueueItems: 4, QueueBytes: 4096, ItemBytes: 2048, LedgerEntries: 16, LogKeep: 20, LogKeepBytes: 1 << 20,
	}
}

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	groups := []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"Submit", testSubmit},
		{"Withdraw", testWithdraw},
		{"Cancel", testCancel},
		{"Append", testAppend},
		{"Finish", testFinish},
		{"Abort", testAbort},
		{"TakeOver", testTakeOver},
		{"Reinstate", testRecover},
		{"Bury", testBury},
		{"LosesNothing", testLosesNothing},
		{"Slots", testSlots},
		{"Log", testLog},
		{"Rows", testRows},
		{"Sessions", testSessions},
		{"Delete", testDelete},
		{"Index", testIndex},
		{"Connections", testConnections},
		{"Concurrent", testConcurrent},
	}
	met := new(Met)
	late, recovers := false, false
	counted := func(t *testing.T) Harness {
		h := open(t)
		late, recovers = h.NotAfter, h.Nodes[0].Generation() > 0
		for i, n := range h.Nodes {
			h.Nodes[i] = &Census{n, met}
		}
		if reader := h.Reader; reader != nil {
			h.Reader = func() store.Store { return &Census{reader(), met} }
		}
		return h
	}
	whole := true
	for _, g := range groups {
		whole = t.Run(g.name, func(t *testing.T) { g.run(t, counted) }) && whole
	}
	if f := flag.Lookup("test.run"); !whole || f != nil && strings.Contains(f.Value.String(), "/") {
		return // a part of the suite need not meet everything
	}
	want := slices.Clone(answers)
	if late {
		want = append(want, lateAnswers...)
	}
	if recovers {
		want = append(want, recoverAnswers...)
	}
	if missing := met.Missing(want...); len(missing) > 0 {
		t.Errorf("results that no case has met: %q", missing)
	}
}

// fixture drives one session of a store and fails the test on errors.
type fixture struct {
	*testing.T
	Harness
	store store.Store
	sid   string
	guard store.Guard
	token string
	seq   int64
	run   string
	calls int
}

func newFixture(t *testing.T, open Open) *fixture {
	t.Helper()
	h := open(t)
	return &fixture{
		T: t, Harness: h, store: h.Nodes[0], sid: "s-1", token: "n1/boot/t1",
		guard: store.Guard{Owner: "alice", Profile: "default"},
	}
}

// cases runs named tests, each on a store of its own.
func cases(t *testing.T, open Open, all map[string]func(*fixture)) {
	for name, run := range all {
		t.Run(name, func(t *testing.T) { run(newFixture(t, open)) })
	}
}

func (f *fixture) ctx() context.Context { return f.Context() }

func must[T any](f *fixture) func(T, error) T {
	return func(v T, err error) T {
		f.Helper()
		if err != nil {
			f.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

func (f *fixture) noError(err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("unexpected error: %v", err)
	}
}

func equal[T comparable](f *fixture, what string, got, want T) {
	f.Helper()
	if got != want {
		f.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (f *fixture) item(qid string) store.Item {
	return store.Item{
		QID: qid, Run: "run-" + qid, Digest: "digest-" + qid, Executor: "gateway", CID: "cid-" + qid, Profile: "default",
		Row: store.NewRow{Role: store.RoleUser, Data: []byte(fmt.Sprintf(`{"text":%q}`, qid))}, Options: []byte("{}"),
	}
}

func (f *fixture) args(qid string, start bool) store.SubmitArgs {
	a := store.SubmitArgs{
		SID: f.sid, Guard: f.guard, Item: f.item(qid), NotAfter: f.later(),
		Create: store.Attrs{Source: "api", Model: "m", Title: "Title of " + f.sid, Preview: "Preview " + qid},
	}
	if start {
		a.Start = &store.Start{Token: f.token, Node: "n1", TTL: store.LeaseTTL}
	}
	return a
}

func (f *fixture) later() int64 { return f.store.Now() + store.NotAfter.Milliseconds() }

func (f *fixture) submit(a store.SubmitArgs, want store.Code) store.SubmitResult {
	f.Helper()
	res := must[store.SubmitResult](f)(f.store.Submit(f.ctx(), a))
	equal(f, "Submit "+a.Item.QID, res.Code, want)
	return res
}

// start begins an idle session's run with qid.
func (f *fixture) start(qid string) store.SubmitResult {
	f.Helper()
	res := f.submit(f.args(qid, true), store.Started)
	f.run, f.seq = "run-"+qid, 0
	return res
}

// enqueue queues items behind the active run.
func (f *fixture) enqueue(qids ...string) {
	f.Helper()
	for _, qid := range qids {
		f.submit(f.args(qid, true), store.Queued)
	}
}

func (f *fixture) batch(events ...string) store.Batch {
	f.calls++
	b := store.Batch{
		SID: f.sid, Token: f.token, Run: f.run, Seq: f.seq + 1, Stamp: fmt.Sprintf("st%04d", f.calls), TTL: store.LeaseTTL,
	}
	for _, e := range events {
		kind := store.KindEvent
		if e == "run.started" {
			kind = store.KindStarted
		}
		b.Events = append(b.Events, store.NewEntry{Kind: kind, Name: e, Payload: []byte("{}")})
	}
	return b
}

func (f *fixture) append(b store.Batch, want store.Code) store.OwnerResult {
	f.Helper()
	res := must[store.OwnerResult](f)(f.store.Append(f.ctx(), b))
	equal(f, "Append", res.Code, want)
	if want == store.OK {
		f.seq = b.Seq
	}
	return res
}

// started tells that the upstream has begun.
func (f *fixture) started() {
	f.Helper()
	b := f.batch("run.started")
	b.Patch = store.Patch{Phase: store.PhaseRunning, WireID: "wire-" + f.run}
	f.append(b, store.OK)
}

func (f *fixture) end(outcome store.State, pop ...string) store.FinishArgs {
	b := f.batch("usage.updated")
	b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte(`{"text":"answer"}`)}}
	return store.FinishArgs{
		Batch: b, Outcome: outcome, End: store.NewEntry{Name: "run." + string(outcome), Payload: []byte("{}")},
		Usage: store.Usage{Input: 10, Output: 5, Context: 15}, Pop: pop, Node: "n1",
	}
}

func (f *fixture) finish(a store.FinishArgs, want store.Code) store.FinishResult {
	f.Helper()
	res := must[store.FinishResult](f)(f.store.Finish(f.ctx(), a))
	equal(f, "Finish", res.Code, want)
	if want == store.Next {
		f.run, f.seq = res.Item.Run, a.Seq
	}
	return res
}

func (f *fixture) abort(run string, want store.Code) store.AbortResult {
	f.Helper()
	entry := store.NewEntry{Name: "abort.started", Payload: []byte("{}")}
	res := must[store.AbortResult](f)(f.store.RequestAbort(f.ctx(), f.sid, f.guard, run, "cid-x", entry))
	equal(f, "RequestAbort", res.Code, want)
	return res
}

func (f *fixture) head() *store.Session {
	f.Helper()
	return &must[[]store.Session](f)(f.store.Head(f.ctx(), f.sid))[0]
}

func (f *fixture) snapshot() store.Snapshot {
	f.Helper()
	return must[store.Snapshot](f)(f.store.Snapshot(f.ctx(), f.sid))
}

// log reads the whole log of an incarnation after a position.
func (f *fixture) log(ep string, after store.Position) []store.Entry {
	f.Helper()
	var all []store.Entry
	for {
		res := must[store.ReadResult](f)(f.store.ReadLog(f.ctx(), f.sid, ep, after, 0))
		equal(f, "ReadLog", res.Code, store.OK)
		if len(res.Entries) == 0 {
			return all
		}
		all = append(all, res.Entries...)
		after = all[len(all)-1].Position()
	}
}

// kinds writes entries as one line, e.g. "peer ev started".
func kinds(entries []store.Entry) string {
	s := ""
	for i := range entries {
		if i > 0 {
			s += " "
		}
		s += string(entries[i].Kind)
	}
	return s
}

func (f *fixture) rows() []store.Row {
	f.Helper()
	h := f.head()
	code, rows, _, err := f.store.Rows(f.ctx(), f.sid, h.Generation, 0, 1000, 1<<20)
	f.noError(err)
	equal(f, "Rows", code, store.OK)
	return rows
}

// orphan makes the session's owner look dead, or ends the test where the store
// cannot do that.
func (f *fixture) orphan() bool {
	switch {
	case f.Orphan != nil:
		f.Orphan(f.sid)
		f.store = f.Reader()
	case f.Leases && f.Pass != nil:
		f.Pass(store.LeaseTTL + time.Second)
	default:
		return false
	}
	return true
}

func (f *fixture) takeOver(token string, caps []string, want store.Code) store.TakeOverResult {
	f.Helper()
	res := must[store.TakeOverResult](f)(f.store.TakeOver(f.ctx(), store.TakeOverArgs{
		SID: f.sid, Token: token, Node: "n2", TTL: store.LeaseTTL, Caps: caps,
	}))
	equal(f, "TakeOver", res.Code, want)
	if want == store.Resumed || want == store.Next {
		f.token, f.run, f.seq = token, res.Item.Run, 0
	}
	return res
}

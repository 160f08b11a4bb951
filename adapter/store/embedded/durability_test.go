package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

var alice = store.Guard{Owner: "alice", Profile: "default"}

func item(qid string) store.Item {
	return store.Item{
		QID: qid, Run: "run-" + qid, Digest: qid, Executor: "gateway", CID: "cid",
		Row: store.NewRow{Role: store.RoleUser, Data: []byte("text of " + qid)}, Options: []byte("opts"),
	}
}

func submit(t *testing.T, st store.Store, sid, qid string, want store.Code) store.SubmitResult {
	t.Helper()
	res, err := st.Submit(context.Background(), store.SubmitArgs{
		SID: sid, Guard: alice, Item: item(qid), Create: store.Attrs{Title: "Title", Preview: "Preview"},
		Start: &store.Start{Token: "tok", Node: "n", TTL: time.Minute},
	})
	if err != nil || res.Code != want {
		t.Fatalf("Submit %s: %s, %v; want %s", qid, res.Code, err, want)
	}
	return res
}

func batch(sid, run string, seq int64) store.Batch {
	return store.Batch{
		SID: sid, Token: "tok", Run: run, Seq: seq, Stamp: fmt.Sprintf("st%04d", seq), TTL: time.Minute,
		Events: []store.NewEntry{{Kind: store.KindEvent, Name: "message.delta", Payload: []byte(`{"delta":"x"}`)}},
	}
}

func appendOK(t *testing.T, st store.Store, b store.Batch) store.OwnerResult {
	t.Helper()
	res, err := st.Append(context.Background(), b)
	if err != nil || res.Code != store.OK {
		t.Fatalf("Append: %s, %v", res.Code, err)
	}
	return res
}

func endOf(b store.Batch, pop ...string) store.FinishArgs {
	b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("answer of " + b.Run)}}
	return store.FinishArgs{Batch: b, Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}, Pop: pop, Node: "n"}
}

func finish(t *testing.T, st store.Store, a store.FinishArgs, want store.Code) store.FinishResult {
	t.Helper()
	res, err := st.Finish(context.Background(), a)
	if err != nil || res.Code != want {
		t.Fatalf("Finish: %s, %v; want %s", res.Code, err, want)
	}
	return res
}

func head(t *testing.T, st store.Store, sid string) *store.Session {
	t.Helper()
	h, err := st.Head(context.Background(), sid)
	if err != nil {
		t.Fatal(err)
	}
	return &h[0]
}

func rowsOf(t *testing.T, st store.Store, sid string) string {
	t.Helper()
	code, rows, _, err := st.Rows(context.Background(), sid, head(t, st, sid).Generation, 0, 1000, 1<<20)
	if err != nil || code != store.OK {
		t.Fatalf("Rows: %s, %v", code, err)
	}
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf("%d:%s", r.ID, r.Data))
	}
	return strings.Join(all, "|")
}

func takeOver(t *testing.T, st store.Store, sid string, want store.Code) store.TakeOverResult {
	t.Helper()
	res, err := st.TakeOver(context.Background(), store.TakeOverArgs{SID: sid, Token: "tok2", Node: "n", TTL: time.Minute})
	if err != nil || res.Code != want {
		t.Fatalf("TakeOver: %s, %v; want %s", res.Code, err, want)
	}
	return res
}

func options(t *testing.T) Options {
	return Options{Path: filepath.Join(t.TempDir(), "dir", "store.db")}
}

func closed(t *testing.T, st *Store) {
	t.Helper()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReopenKeepsWhatACloseFinds(t *testing.T) {
	o := options(t)
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	submit(t, st, "s", "q2", store.Queued)
	b := batch("s", "run-q1", 1)
	b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("tool")}}
	b.Patch = store.Patch{Upstream: []byte("cursor"), WireID: "w"}
	b.Checkpoint = []byte("folded")
	last := appendOK(t, st, b).Last
	ep := head(t, st, "s").Incarnation
	submit(t, st, "idle", "q1", store.Started)
	finish(t, st, endOf(batch("idle", "run-q1", 1)), store.Idle)
	closed(t, st)

	st = open(t, o)
	due, err := st.Due(context.Background(), 10)
	if err != nil || len(due) != 1 || due[0].SID != "s" {
		t.Fatalf("due at the start: %v, %v; want the busy session alone", due, err)
	}
	h := head(t, st, "s")
	if h.Incarnation != ep || h.Run.Alive || h.Run.WireID != "w" || h.QueueLength != 1 || h.Head != store.Origin {
		t.Fatalf("root after reopening: %+v", h)
	}
	if got := rowsOf(t, st, "s"); got != "1:text of q1|2:tool" {
		t.Fatalf("rows: %s", got)
	}
	res, err := st.ReadLog(context.Background(), "s", ep, last, 0)
	if err != nil || res.Code != store.Diverged {
		t.Fatalf("a position of the last process: %s, %v; want diverged", res.Code, err)
	}
	taken := takeOver(t, st, "s", store.Resumed)
	if !taken.Rerun || string(taken.Checkpoint) != "folded" || len(taken.Entries) != 0 || string(taken.Item.Row.Data) != "text of q1" {
		t.Fatalf("taken over: %+v", taken)
	}
	b = batch("s", "run-q1", 1)
	b.Token = "tok2"
	a := endOf(b, "gateway")
	if next := finish(t, st, a, store.Next); next.Item.QID != "q2" || string(next.Item.Options) != "opts" {
		t.Fatalf("next: %+v", next.Item)
	}
	submit(t, st, "idle", "q1", store.Repeat)
	if head(t, st, "idle").Busy() {
		t.Fatal("idle session is busy after reopening")
	}
}

func TestBackgroundTransaction(t *testing.T) {
	o := options(t)
	var commits atomic.Int64
	committed := make(chan struct{}, 64)
	o.hook = func(point string) error {
		if point == afterCommit {
			commits.Add(1)
			committed <- struct{}{}
		}
		return nil
	}
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	<-committed
	for seq := range int64(50) {
		appendOK(t, st, batch("s", "run-q1", seq+1))
	}
	if n := commits.Load(); n != 1 {
		t.Fatalf("%d commits after deltas alone, want the one of Submit", n)
	}
	b := batch("s", "run-q1", 51)
	b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("tool")}}
	b.Checkpoint = []byte("folded")
	appendOK(t, st, b)
	<-committed
	img, err := st.journal.Load(context.Background(), "s")
	if err != nil || string(img.Checkpoint) != "folded" || img.Root.LastRow != 2 {
		t.Fatalf("stored: %+v, %v", img, err)
	}
	if got := rowsOf(t, st, "s"); got != "1:text of q1|2:tool" {
		t.Fatalf("rows: %s", got)
	}
	for len(st.Pending(10, 0)) != 0 { // told after the transaction, at once
		runtime.Gosched()
	}
}

func TestManySessionsShareACommit(t *testing.T) {
	o := options(t)
	var commits atomic.Int64
	gate := make(chan struct{})
	first := make(chan struct{}, 64)
	o.hook = func(point string) error {
		if point == beforeCommit {
			first <- struct{}{}
			<-gate
			commits.Add(1)
		}
		return nil
	}
	st := open(t, o)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); submit(t, st, "lone", "q", store.Started) }()
	<-first
	for i := range 20 {
		wg.Add(1)
		go func() { defer wg.Done(); submit(t, st, fmt.Sprint("s", i), "q", store.Started) }()
	}
	for len(st.journal.queue) < 20 {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	if n := commits.Load(); n != 2 {
		t.Fatalf("%d transactions for a lone commit and 20 at once, want 2", n)
	}
}

func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	o := options(t)
	gate, reached := make(chan struct{}), make(chan struct{})
	var armed atomic.Bool
	o.hook = func(point string) error {
		if point == beforeCommit && armed.CompareAndSwap(true, false) {
			close(reached)
			<-gate
		}
		return nil
	}
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	armed.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := st.Submit(ctx, store.SubmitArgs{SID: "s", Guard: alice, Item: item("q2")})
		done <- err
	}()
	<-reached
	if head(t, st, "s").QueueLength != 0 {
		t.Fatal("a change shows before it is stored")
	}
	cancel()
	if err := <-done; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("a call given up in its commit: %v, want ErrUnknown", err)
	}
	short, stop := context.WithTimeout(context.Background(), time.Millisecond)
	defer stop()
	if _, err := st.Append(short, batch("s", "run-q1", 1)); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("a call given up in the line: %v, want ErrUnavailable", err)
	}
	close(gate)
	submit(t, st, "s", "q2", store.Queued)
	if n := head(t, st, "s").QueueLength; n != 1 {
		t.Fatalf("queue %d, want the one that was given up", n)
	}
}

// broken is a file that can be made to refuse writes.
type broken struct{ is atomic.Bool }

func (b *broken) hook(point string) error {
	if point == beforeCommit && b.is.Load() {
		return fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "/secret/store.db", Err: syscall.ENOSPC})
	}
	return nil
}

func TestDiskFull(t *testing.T) {
	o := options(t)
	var disk broken
	o.hook, o.finish = disk.hook, time.Millisecond
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	submit(t, st, "s", "q2", store.Queued)
	disk.is.Store(true)
	for _, sid := range []string{"s", "new"} {
		_, err := st.Submit(context.Background(), store.SubmitArgs{SID: sid, Guard: alice, Item: item("q3")})
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "no space left") || strings.Contains(err.Error(), "/secret") {
			t.Fatalf("Submit: %v; want ErrUnavailable with its cause and without a path", err)
		}
	}
	if head(t, st, "new").Exists() || head(t, st, "s").QueueLength != 1 {
		t.Fatal("a refused change shows")
	}
	appendOK(t, st, batch("s", "run-q1", 1))
	a := endOf(batch("s", "run-q1", 2), "gateway")
	if res := finish(t, st, a, store.Waiting); res.Item != nil {
		t.Fatalf("the queue was popped without a file: %+v", res.Item)
	}
	finish(t, st, a, store.Waiting)
	if got := rowsOf(t, st, "s"); got != "1:text of q1|2:answer of run-q1" {
		t.Fatalf("rows while the disk is full: %s", got)
	}
	disk.is.Store(false)
	closed(t, st)

	st = open(t, o)
	if got := rowsOf(t, st, "s"); got != "1:text of q1|2:answer of run-q1" {
		t.Fatalf("rows after the disk was full: %s", got)
	}
	submit(t, st, "s", "q1", store.Repeat)
	if res := takeOver(t, st, "s", store.Next); res.Item.QID != "q2" {
		t.Fatalf("next: %+v", res.Item)
	}
}

func TestFinishWaitsForTheDisk(t *testing.T) {
	o := options(t)
	var fail atomic.Int64
	o.hook = func(point string) error {
		if point == beforeCommit && fail.Add(-1) >= 0 {
			return errors.New("not now")
		}
		return nil
	}
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	submit(t, st, "s", "q2", store.Queued)
	fail.Store(2)
	if res := finish(t, st, endOf(batch("s", "run-q1", 1), "gateway"), store.Next); res.Item.QID != "q2" {
		t.Fatalf("next: %+v", res.Item)
	}
}

func TestOneBadCommitFailsAlone(t *testing.T) {
	st := open(t, options(t))
	long := item("q1")
	long.QID = strings.Repeat("x", bolt.MaxKeySize)
	_, err := st.Submit(context.Background(), store.SubmitArgs{SID: "s", Guard: alice, Item: long})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("a key that is too long: %v", err)
	}
	submit(t, st, "s", "q1", store.Started)
}

func TestAWriterTooFarBehindRefuses(t *testing.T) {
	o := options(t)
	gate, reached := make(chan struct{}), make(chan struct{}, waitingCommits)
	o.hook = func(point string) error {
		if point == beforeCommit {
			reached <- struct{}{}
			<-gate
		}
		return nil
	}
	st := open(t, o)
	try := func(sid string) error {
		_, err := st.Submit(context.Background(), store.SubmitArgs{SID: sid, Guard: alice, Item: item("q")})
		return err
	}
	errs := make(chan error, waitingCommits+1)
	go func() { errs <- try("first") }()
	<-reached
	for i := range waitingCommits {
		go func() { errs <- try(fmt.Sprint("s", i)) }()
	}
	for len(st.journal.queue) < waitingCommits {
		runtime.Gosched()
	}
	if err := try("one too many"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a commit behind %d others: %v, want ErrUnavailable", waitingCommits, err)
	}
	close(gate)
	for range waitingCommits + 1 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestATenureNobodyWaitsForIsNotHeld: leases do not expire here, so that a
// TakeOver that was given up must not hold the session for ever.
func TestATenureNobodyWaitsForIsNotHeld(t *testing.T) {
	o := options(t)
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	closed(t, st)

	gate, reached := make(chan struct{}), make(chan struct{}, 8)
	o.hook = func(point string) error {
		if point == beforeCommit {
			reached <- struct{}{}
			<-gate
		}
		return nil
	}
	st = open(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := st.TakeOver(ctx, store.TakeOverArgs{SID: "s", Token: "lost", Node: "n", TTL: time.Minute})
		done <- err
	}()
	<-reached
	cancel()
	if err := <-done; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("a TakeOver given up: %v, want ErrUnknown", err)
	}
	close(gate)
	if res := takeOver(t, st, "s", store.Resumed); !res.Rerun || res.Session.Run.Attempt != 2 {
		t.Fatalf("rerun %v, attempt %d", res.Rerun, res.Session.Run.Attempt)
	}
}

func TestADiskThatHangsHoldsNoCaller(t *testing.T) {
	o := options(t)
	gate := make(chan struct{})
	o.limit = 20 * time.Millisecond
	o.hook = func(point string) error {
		if point == beforeCommit {
			<-gate
		}
		return nil
	}
	st := open(t, o)
	ctx := context.Background()
	a := store.SubmitArgs{SID: "s", Guard: alice, Item: item("q1")}
	if _, err := st.Submit(ctx, a); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("in the commit: %v, want ErrUnknown", err)
	}
	if _, err := st.Submit(ctx, a); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("in the line: %v, want ErrUnavailable", err)
	}
	close(gate)
}

//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// reinstated sends what the owner of a run that offer and deltas made knows of it.
func reinstated(t *testing.T, st *Store, sid, qid string, seq int64, rows ...string) store.ReinstateResult {
	t.Helper()
	o := offer(sid, qid)
	a := store.ReinstateArgs{
		SID: sid, Guard: alice, Create: o.Create, Item: o.Item, TTL: store.LeaseTTL, Seq: seq, Checkpoint: []byte("folded"),
		Record: store.RunRecord{Phase: store.PhaseRunning, Executor: "gateway", WireID: "resp_1", Token: "tok", Fence: 1, Node: "n1"},
		Rows:   []store.NewRow{o.Item.Row},
	}
	for _, r := range rows {
		a.Rows = append(a.Rows, store.NewRow{Role: store.RoleAssistant, Data: []byte(r)})
	}
	res, err := st.Reinstate(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func transcript(t *testing.T, st *Store, sid string) []string {
	t.Helper()
	h := headOf(t, st, sid)
	code, rows, _, err := st.Rows(t.Context(), sid, h.Generation, 0, 100, 1<<20)
	if err != nil || code != store.OK {
		t.Fatal(code, err)
	}
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = string(r.Data)
	}
	return texts
}

func TestReplaced(t *testing.T) {
	a := process{run: "a", master: true}
	for _, c := range []struct {
		name     string
		was, now process
		want     bool
	}{
		{"the same", a, a, false},
		{"another process", a, process{run: "b", master: true}, true},
		{"promoted", process{run: "a"}, process{run: "a", master: true}, true},
		{"demoted", a, process{run: "a"}, false},
		{"demoted and promoted unseen", a, process{run: "a", master: true, former: "x"}, true},
		{"its last replica has left for long", process{run: "a", master: true, former: "x"}, a, false},
	} {
		if got := c.now.replaced(c.was); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	info := "# Server\r\nrun_id:ab12\r\n# Replication\r\nrole:slave\r\nmaster_replid2:0000\r\n"
	if p := parseProcess(info); p != (process{run: "ab12"}) {
		t.Errorf("%+v", p)
	}
}

// TestGeneration: the first process, a pool that grows, and a call that is late
// change nothing; a process that takes the place of another one does, before its
// first answer (contract 9.4).
func TestGeneration(t *testing.T) {
	server := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	server.Kill()
	st := nervous(t, server.Addr)
	_, err := st.Head(t.Context(), "s")
	wantError(t, "Head", err, store.ErrUnavailable)
	server.Restart()
	answers(t, st)
	grow(t, st)
	if g := st.Generation(); g != 1 {
		t.Fatalf("generation %d of the first process", g)
	}
	for want := uint64(2); want <= 3; want++ {
		server.Kill()
		server.Restart()
		eventually(t, "a call is answered", func() bool {
			before := st.Generation()
			_, err := st.Head(t.Context(), "s")
			if err == nil && st.Generation() != want {
				t.Fatalf("answered in generation %d to %d, want %d", before, st.Generation(), want)
			}
			return err == nil
		})
	}
	grow(t, st)
	if g := st.Generation(); g != 3 {
		t.Fatalf("generation %d after the pool has grown", g)
	}
}

// grow makes many calls at once, so that the pool grows.
func grow(t *testing.T, st *Store) {
	t.Helper()
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			if _, err := st.Head(t.Context(), fmt.Sprint("s", i)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}

// TestGenerationAtRest: a store that is not used at all learns of a new
// process within moments.
func TestGenerationAtRest(t *testing.T) {
	server := redisserver.Start(t)
	st := nervous(t, server.Addr)
	answers(t, st)
	server.Kill()
	server.Restart()
	eventually(t, "the generation changes", func() bool { return st.Generation() == 2 })
}

// TestGenerationWithoutInfo: where INFO is refused each reconnect counts, but not a
// pool that grows.
func TestGenerationWithoutInfo(t *testing.T) {
	server := redisserver.Start(t)
	user := func() {
		if got := server.Do("ACL", "SETUSER", "edge", "on", ">secret", "~*", "&*", "+@all", "-info"); got != "OK" {
			t.Fatal(got)
		}
	}
	user()
	st := open(t, Options{Addrs: []string{server.Addr}, Username: "edge", Password: "secret", BreakAfter: 300 * time.Millisecond, Timeout: time.Second})
	answers(t, st)
	grow(t, st)
	if g := st.Generation(); g != 1 {
		t.Fatalf("generation %d after the pool has grown", g)
	}
	server.Kill()
	server.Restart()
	user()
	answers(t, st)
	if g := st.Generation(); g == 1 {
		t.Fatal("a reconnect does not count")
	}
}

// TestPromotedReplica: what a store talks to becomes a master without some of the
// last writes. The generation changes, and the owner makes its run the active one
// again, with the rows that are missing; nobody reads on from where the lost log
// was (H25, H26).
func TestPromotedReplica(t *testing.T) {
	primary := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := redisserver.Start(t, "--replicaof", host+" "+port)
	st, after := open(t, Options{Addrs: []string{primary.Addr}}), open(t, Options{Addrs: []string{replica.Addr}})
	first := submitted(t, st, offer("s", "q"), store.Started)
	queue := offer("s", "q2")
	queue.Start = nil
	submitted(t, st, queue, store.Queued)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	if n := primary.Do("WAIT", 1, 20_000); n != "1" {
		t.Fatalf("the replica does not follow: %s", n)
	}
	if h := headOf(t, after, "s"); h.QueueLength != 1 {
		t.Fatalf("%+v", h)
	}
	// Lost: the end of q, and that q2 has begun and written a row.
	replica.Do("REPLICAOF", "NO", "ONE")
	end := store.FinishArgs{
		Batch: deltas("s", "run-q", 2, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"},
		Pop: []string{"gateway"}, Node: "n1",
	}
	end.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("answer 1")}}
	next, err := st.Finish(t.Context(), end)
	if err != nil || next.Code != store.Next {
		t.Fatal(next.Code, err)
	}
	b := deltas("s", "run-q2", 3, 1)
	b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("answer 2")}}
	lost := appended(t, st, b, store.OK)

	if res := renewed(t, after, "s", "run-q2", 3); res.Code != store.Ended {
		t.Fatalf("Renew: %s", res.Code)
	}
	if after.Generation() == 1 {
		t.Fatal("the generation has not changed with the first answer")
	}
	if res := reinstated(t, after, "s", "q", 1); res.Code != store.OK {
		t.Fatalf("Reinstate of the ended run: %s", res.Code)
	}
	end.Pop = nil
	if res, err := after.Finish(t.Context(), end); err != nil || res.Code != store.Waiting {
		t.Fatal(res.Code, err)
	}
	res := reinstated(t, after, "s", "q2", 3, "answer 2")
	if res.Code != store.OK || len(res.Rows) != 2 || res.Incarnation != first.Incarnation {
		t.Fatalf("Reinstate: %+v", res)
	}
	if again := reinstated(t, after, "s", "q2", 3, "answer 2"); again.Code != store.OK || !slices.Equal(again.Rows, res.Rows) || again.Last != res.Last {
		t.Fatalf("again: %+v, want %+v", again, res)
	}
	if got, want := transcript(t, after, "s"), []string{"text of q", "answer 1", "text of q2", "answer 2"}; !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	appended(t, after, deltas("s", "run-q2", 4, 1), store.OK)
	read, err := after.ReadLog(t.Context(), "s", first.Incarnation, first.Last, 0)
	if err != nil || read.Code != store.OK || len(read.Entries) == 0 {
		t.Fatalf("ReadLog: %s, %v", read.Code, err)
	}
	for _, p := range []store.Position{read.Entries[len(read.Entries)-1].Position(), lost.Last} {
		read, err := after.ReadLog(t.Context(), "s", first.Incarnation, p, 0)
		if err != nil || read.Code != store.Diverged {
			t.Fatalf("ReadLog from %+v: %s, %v", p, read.Code, err)
		}
	}
	if read, err := after.ReadLog(t.Context(), "s", first.Incarnation, res.Last, 0); err != nil || read.Code != store.OK || len(read.Entries) != 1 {
		t.Fatalf("ReadLog: %s, %v", read.Code, err)
	}
	end.Batch = deltas("s", "run-q2", 5, 1)
	if res, err := after.Finish(t.Context(), end); err != nil || res.Code != store.Idle {
		t.Fatal(res.Code, err)
	}
	if res := reinstated(t, after, "s", "q2", 5); res.Code != store.Ended {
		t.Fatalf("Reinstate of what has ended: %s", res.Code)
	}
}

func renewed(t *testing.T, st *Store, sid, run string, seq int64) store.OwnerResult {
	t.Helper()
	res, err := st.Renew(t.Context(), sid, "tok", run, seq, store.LeaseTTL)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestEmptyStore: after a crash without persistence owners make their runs active
// again with the rows of these runs; everything else is gone (contract 9.6).
func TestEmptyStore(t *testing.T) {
	server := redisserver.Start(t)
	st := nervous(t, server.Addr)
	first := submitted(t, st, offer("s", "q"), store.Started)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	server.Kill()
	server.Restart()
	answers(t, st)
	if g := st.Generation(); g != 2 {
		t.Fatalf("generation %d", g)
	}
	appended(t, st, deltas("s", "run-q", 2, 1), store.Lost)
	res := reinstated(t, st, "s", "q", 1, "sealed")
	if res.Code != store.OK || res.Incarnation == first.Incarnation || res.Incarnation == "" {
		t.Fatalf("Reinstate: %+v", res)
	}
	appended(t, st, deltas("s", "run-q", 2, 1), store.OK)
	if got := transcript(t, st, "s"); !slices.Equal(got, []string{"text of q", "sealed"}) {
		t.Fatalf("%q", got)
	}
	h := headOf(t, st, "s")
	if h.Title != "Title" || h.Run.Run != "run-q" || h.Run.Phase != store.PhaseRunning || !h.Run.Alive || h.Run.WireID != "resp_1" {
		t.Fatalf("%+v", h)
	}
	if res := submitted(t, st, offer("s", "q"), store.Repeat); res.State != store.StateActive {
		t.Fatalf("the message sent again: %+v", res)
	}
	page, err := st.List(t.Context(), store.ListQuery{Owner: "alice"})
	if err != nil || len(page.Sessions) != 1 {
		t.Fatalf("List: %d sessions, %v", len(page.Sessions), err)
	}
	other := offer("s", "other")
	other.Item.Run = "run-other"
	if code, err := st.Bury(context.Background(), store.BuryArgs{SID: "s", Guard: alice, Item: other.Item, Rows: []store.NewRow{other.Item.Row}}); err != nil || code != store.OK {
		t.Fatal(code, err)
	}
	if got := transcript(t, st, "s"); len(got) != 3 {
		t.Fatalf("%q", got)
	}
	if res := submitted(t, st, other, store.Repeat); res.State != store.StateFailed {
		t.Fatalf("the buried message: %+v", res)
	}
}

// TestDecidedBefore: what a node decided to begin before it knew of a new process is
// not executed by that process, which may lack what an owner is about to bring
// back. Everything else is; and so is the same call once the node knows.
func TestDecidedBefore(t *testing.T) {
	for name, deploy := range map[string]func(*testing.T) *Store{
		"standalone": func(t *testing.T) *Store { return open(t, Options{Addrs: []string{redisserver.Start(t).Addr}}) },
		"cluster":    func(t *testing.T) *Store { return openCluster(t, redisserver.StartCluster(t, 3), Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			st := deploy(t)
			ctx := t.Context()
			submitted(t, st, offer("s", "q1"), store.Started)
			submitted(t, st, offer("s", "q2"), store.Queued)
			if err := st.lookAround(ctx); err != nil {
				t.Fatal(err)
			}
			// The node knows another process than the one that serves.
			set := func(run func(string) string) {
				st.generations.mu.Lock()
				defer st.generations.mu.Unlock()
				for _, s := range st.generations.servers {
					s.is.run = run(s.is.run)
				}
			}
			st.looking() // nobody tells it
			st.work.Wait()
			set(func(run string) string { return "x" + run })

			end := store.FinishArgs{
				Batch: deltas("s", "run-q1", 1, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"},
				Pop: []string{"gateway"}, Node: "n1",
			}
			_, err := st.Finish(ctx, end)
			wantError(t, "Finish that pops", err, store.ErrUnavailable)
			_, err = st.Submit(ctx, offer("new", "q"))
			wantError(t, "Submit that starts", err, store.ErrUnavailable)
			_, err = st.Withdraw(ctx, "s", "q2", "run-q2")
			wantError(t, "Withdraw", err, store.ErrUnavailable)
			submitted(t, st, offer("s", "q3"), store.Queued)
			appended(t, st, end.Batch, store.OK)
			end.Batch, end.Pop = deltas("s", "run-q1", 2, 1), nil
			if res, err := st.Finish(ctx, end); err != nil || res.Code != store.Waiting {
				t.Fatal(res.Code, err)
			}
			take := store.TakeOverArgs{SID: "s", Token: "taker", Node: "n2", TTL: time.Minute}
			_, err = st.TakeOver(ctx, take)
			wantError(t, "TakeOver", err, store.ErrUnavailable)
			if h := headOf(t, st, "s"); h.Run.Run != "" || h.QueueLength != 2 || headOf(t, st, "new").Exists() {
				t.Fatalf("something was begun: %+v", h)
			}
			set(func(run string) string { return run[1:] })
			if res, err := st.TakeOver(ctx, take); err != nil || res.Code != store.Next {
				t.Fatal(res.Code, err)
			}
		})
	}
}

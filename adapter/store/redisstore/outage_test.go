//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// nervous opens a store with the times of production, but a shorter call.
func nervous(t *testing.T, addr string) *Store {
	return open(t, Options{Addrs: []string{addr}, Timeout: 400 * time.Millisecond, BreakAfter: 300 * time.Millisecond})
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !is() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("in vain: %s", what)
		}
	}
}

// answers waits until the store answers again.
func answers(t *testing.T, st *Store) {
	t.Helper()
	eventually(t, "redis is back", func() bool { return st.Ping(t.Context()) == nil })
}

func submitted(t *testing.T, st *Store, a store.SubmitArgs, want store.Code) store.SubmitResult {
	t.Helper()
	res, err := st.Submit(t.Context(), a)
	if err != nil || res.Code != want {
		t.Fatalf("Submit: %s, %v; want %s", res.Code, err, want)
	}
	return res
}

func appended(t *testing.T, st *Store, b store.Batch, want store.Code) store.OwnerResult {
	t.Helper()
	res, err := st.Append(t.Context(), b)
	if err != nil || res.Code != want {
		t.Fatalf("Append: %s, %v; want %s", res.Code, err, want)
	}
	return res
}

func headOf(t *testing.T, st *Store, sid string) *store.Session {
	t.Helper()
	h, err := st.Head(t.Context(), sid)
	if err != nil {
		t.Fatal(err)
	}
	return &h[0]
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", what, err, want)
	}
}

// TestDownAtStart: a store opens without a server, refuses at once, and works as
// soon as there is one (RED: down at start).
func TestDownAtStart(t *testing.T) {
	server := redisserver.Start(t)
	server.Kill()
	st := nervous(t, server.Addr)
	_, err := st.Submit(t.Context(), offer("s", "q"))
	wantError(t, "Submit", err, store.ErrUnavailable)
	_, err = st.Head(t.Context(), "s")
	wantError(t, "Head", err, store.ErrUnavailable)
	_, err = st.Subscribe(t.Context(), "s", func(store.Hint) {})
	wantError(t, "Subscribe", err, store.ErrUnavailable)
	if st.Available() {
		t.Fatal("the store calls itself available")
	}
	server.Restart()
	answers(t, st)
	submitted(t, st, offer("s", "q"), store.Started)
}

// TestPaused: a stopped server leaves calls unknown, then new ones are refused
// without being sent; once woken it executes what was sent, but nothing that has
// become too late (H4).
func TestPaused(t *testing.T) {
	server := redisserver.Start(t)
	// Each has one connection, at rest, so that its call is sent and not only meant to be.
	st, other := nervous(t, server.Addr), nervous(t, server.Addr)
	submitted(t, st, offer("a", "q0"), store.Started)
	submitted(t, other, offer("b", "q0"), store.Started)
	for _, s := range []*Store{st, other} {
		if err := s.lists.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	late, plain := offer("a", "q1"), offer("b", "q1")
	late.NotAfter = st.Now() + 100

	server.Pause()
	_, err := st.Submit(t.Context(), late)
	wantError(t, "Submit", err, store.ErrUnknown)
	_, err = other.Submit(t.Context(), plain)
	wantError(t, "Submit", err, store.ErrUnknown)
	eventually(t, "calls are refused at once", func() bool {
		_, err := st.Append(t.Context(), deltas("a", "run-q0", 1, 1))
		return errors.Is(err, errOpen) && errors.Is(err, store.ErrUnavailable)
	})
	if st.Available() {
		t.Fatal("the store calls itself available")
	}
	// A session that nobody has open here is refused without waiting for its channel.
	if _, err := st.Subscribe(t.Context(), "c", func(store.Hint) {}); !errors.Is(err, errOpen) {
		t.Fatalf("Subscribe: %v, want the refusal of a server that does not answer", err)
	}
	server.Resume()
	answers(t, st)
	answers(t, other)

	again, err := st.Submit(t.Context(), late)
	if err != nil || again.Code != store.Expired || again.Now <= late.NotAfter {
		t.Fatalf("late: %+v, %v", again, err)
	}
	if h := headOf(t, st, "a"); h.QueueLength != 0 {
		t.Fatal("what was too late has been executed")
	}
	if h := headOf(t, st, "b"); h.QueueLength != 1 {
		t.Fatal("what was sent has not been executed")
	}
	if res := submitted(t, other, plain, store.Queued); res.Length != 1 {
		t.Fatalf("the same call again: %+v", res)
	}
}

// TestBreakerClosesByItself: with no call at all the store learns that the server
// is back.
func TestBreakerClosesByItself(t *testing.T) {
	server := redisserver.Start(t)
	st := nervous(t, server.Addr)
	answers(t, st)
	server.Kill()
	eventually(t, "the breaker opens", func() bool {
		if err := st.Ping(t.Context()); err == nil {
			t.Fatal("a dead server answers")
		}
		return !st.Available()
	})
	server.Restart()
	eventually(t, "the breaker closes", st.Available)
}

// TestKilledWithAOF: nothing acknowledged is lost, the same call again is known,
// and the run is of another generation.
func TestKilledWithAOF(t *testing.T) {
	server := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st := nervous(t, server.Addr)
	first := submitted(t, st, offer("s", "q"), store.Started)
	batch := deltas("s", "run-q", 1, 3)
	wrote := appended(t, st, batch, store.OK)
	server.Kill()
	_, err := st.Append(t.Context(), deltas("s", "run-q", 2, 1))
	if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("Append to a dead server: %v", err)
	}
	server.Restart()
	answers(t, st)
	if again := appended(t, st, batch, store.Dup); again.Last != wrote.Last {
		t.Fatalf("%+v, want %+v", again.Last, wrote.Last)
	}
	read, err := st.ReadLog(t.Context(), "s", first.Incarnation, first.Last, 0)
	if err != nil || read.Code != store.OK || len(read.Entries) != 3 {
		t.Fatalf("ReadLog: %s, %d entries, %v", read.Code, len(read.Entries), err)
	}
	server.Do("DEL", st.sessionKey("l", "s"))
	res, err := st.TakeOver(t.Context(), store.TakeOverArgs{SID: "s", Token: "other", Node: "n2", TTL: time.Minute})
	if err != nil || res.Code != store.Resumed || res.Rerun {
		t.Fatalf("TakeOver: %s, rerun %v, %v", res.Code, res.Rerun, err)
	}
}

// TestKilledWithoutPersistence: owners learn that the session is lost, readers
// that their position is of another log.
func TestKilledWithoutPersistence(t *testing.T) {
	server := redisserver.Start(t)
	st := nervous(t, server.Addr)
	first := submitted(t, st, offer("s", "q"), store.Started)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	server.Kill()
	server.Restart()
	answers(t, st)
	appended(t, st, deltas("s", "run-q", 2, 1), store.Lost)
	if headOf(t, st, "s").Exists() {
		t.Fatal("an append has made a session")
	}
	next := submitted(t, st, offer("s", "q2"), store.Started)
	if next.Incarnation == first.Incarnation {
		t.Fatal("the new session has the old incarnation")
	}
	read, err := st.ReadLog(t.Context(), "s", first.Incarnation, first.Last, 0)
	if err != nil || read.Code != store.Diverged {
		t.Fatalf("ReadLog: %s, %v", read.Code, err)
	}
}

// TestLostWrites: a replica is promoted that lacks the last writes. The owner's
// next batch is refused with what the store has, and a reader's position is not
// taken for one of the new log (H26).
func TestLostWrites(t *testing.T) {
	primary := redisserver.Start(t)
	host, port, _ := net.SplitHostPort(primary.Addr)
	replica := redisserver.Start(t, "--replicaof", host+" "+port)
	before, after := open(t, Options{Addrs: []string{primary.Addr}}), open(t, Options{Addrs: []string{replica.Addr}})
	first := submitted(t, before, offer("s", "q"), store.Started)
	appended(t, before, deltas("s", "run-q", 1, 1), store.OK)
	if n := primary.Do("WAIT", 1, 20_000); n != "1" {
		t.Fatalf("the replica does not follow: %s", n)
	}
	_, err := after.Append(t.Context(), deltas("s", "run-q", 2, 1))
	wantError(t, "a write to a replica", err, store.ErrUnavailable)
	replica.Do("REPLICAOF", "NO", "ONE")
	lost := appended(t, before, deltas("s", "run-q", 2, 1), store.OK)

	if res := appended(t, after, deltas("s", "run-q", 3, 1), store.Back); res.Seq != 1 {
		t.Fatalf("the store has %d", res.Seq)
	}
	other := deltas("s", "run-q", 2, 2)
	other.Stamp = "other-"
	appended(t, after, other, store.OK)
	read, err := after.ReadLog(t.Context(), "s", first.Incarnation, lost.Last, 0)
	if err != nil || read.Code != store.Diverged {
		t.Fatalf("ReadLog from a lost position: %s, %v", read.Code, err)
	}
}

// TestRefusedWrites: a server that is out of memory, short of replicas or a
// replica refuses a script as a whole, and the same call works later.
func TestRefusedWrites(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	submitted(t, st, offer("s", "q"), store.Started)
	submitted(t, st, offer("idle", "q"), store.Started)
	ended, err := st.Finish(t.Context(), store.FinishArgs{Batch: deltas("idle", "run-q", 1, 1), Outcome: store.StateCompleted})
	if err != nil || ended.Code != store.Idle {
		t.Fatal(ended.Code, err)
	}
	host, _, _ := net.SplitHostPort(server.Addr)
	for i, c := range []struct{ name, on, off string }{
		{"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
		{"READONLY", "REPLICAOF " + host + " 1", "REPLICAOF NO ONE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			do := func(line string) {
				var args []any
				for _, w := range strings.Fields(line) {
					args = append(args, w)
				}
				if got := server.Do(args...); got != "OK" {
					t.Fatalf("%s: %s", line, got)
				}
			}
			if err := st.lists.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			head, keys := headOf(t, st, "s"), server.Do("DBSIZE")
			do(c.on)
			batch := deltas("s", "run-q", int64(i+1), 2)
			_, err := st.Append(t.Context(), batch)
			wantError(t, "Append", err, store.ErrUnavailable)
			_, err = st.Submit(t.Context(), offer("s", "w"+c.name))
			wantError(t, "Submit to a known session", err, store.ErrUnavailable)
			_, err = st.Submit(t.Context(), offer("new", "q"))
			wantError(t, "Submit to a new session", err, store.ErrUnavailable)
			_, err = st.Withdraw(t.Context(), "s", "w"+c.name, "run-x")
			wantError(t, "Withdraw", err, store.ErrUnavailable)
			_, err = st.Delete(t.Context(), "s", alice, "op", 0)
			wantError(t, "Delete of a busy session", err, store.ErrUnavailable)
			_, err = st.Delete(t.Context(), "idle", alice, "op", 0)
			wantError(t, "Delete", err, store.ErrUnavailable)
			_, err = st.Clear(t.Context(), "idle", alice, "op", 0)
			wantError(t, "Clear", err, store.ErrUnavailable)
			do(c.off)
			if now := headOf(t, st, "s"); now.Head != head.Head || now.QueueLength != 0 || now.Deleting || server.Do("DBSIZE") != keys {
				t.Fatalf("something has changed: %+v", now)
			}
			appended(t, st, batch, store.OK)
		})
	}
}

// TestScriptFlush: scripts that the server has forgotten are loaded again inside
// the call, also for single commands of a pipeline.
func TestScriptFlush(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	flush := func() {
		if got := server.Do("SCRIPT", "FLUSH"); got != "OK" {
			t.Fatal(got)
		}
	}
	for i := range 3 {
		flush()
		submitted(t, st, offer(fmt.Sprint("s", i), "q"), store.Started)
	}
	flush()
	heads, err := st.Head(t.Context(), "s0", "none", "s2")
	if err != nil || !heads[0].Exists() || heads[1].Exists() || !heads[2].Exists() {
		t.Fatalf("Head: %+v, %v", heads, err)
	}
	flush()
	page, err := st.List(t.Context(), store.ListQuery{})
	if err != nil || len(page.Sessions) != 3 {
		t.Fatalf("List: %d sessions, %v", len(page.Sessions), err)
	}
}

// TestWithoutInfo: a user that may not call INFO works, but a run is never begun
// again, since nobody can tell whether the server has lost anything.
func TestWithoutInfo(t *testing.T) {
	server := redisserver.Start(t)
	if got := server.Do("ACL", "SETUSER", "edge", "on", ">secret", "~hermes:*", "&hermes:*", "+@all", "-@dangerous", "-@admin", "-info"); got != "OK" {
		t.Fatal(got)
	}
	st := open(t, Options{Addrs: []string{server.Addr}, Username: "edge", Password: "secret"})
	submitted(t, st, offer("s", "q"), store.Started)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	server.Do("DEL", st.sessionKey("l", "s"))
	res, err := st.TakeOver(t.Context(), store.TakeOverArgs{SID: "s", Token: "other", Node: "n2", TTL: time.Minute})
	if err != nil || res.Code != store.Resumed || res.Rerun {
		t.Fatalf("TakeOver: %s, rerun %v, %v", res.Code, res.Rerun, err)
	}
	other := open(t, Options{Addrs: []string{server.Addr}, Username: "edge", Password: "wrong"})
	_, err = other.Submit(t.Context(), offer("s", "q"))
	wantError(t, "a wrong password", err, store.ErrUnavailable)
	if strings.Contains(err.Error(), "secret") {
		t.Fatal("the error tells a password")
	}
}

// TestTooNew: what a newer version has written is left alone.
func TestTooNew(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	first := submitted(t, st, offer("s", "q"), store.Started)
	server.Do("HSET", st.sessionKey("h", "s"), "v", layoutVersion+1)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Submit":   func() error { _, err := st.Submit(ctx, offer("s", "q2")); return err },
		"Append":   func() error { _, err := st.Append(ctx, deltas("s", "run-q", 1, 1)); return err },
		"Renew":    func() error { _, err := st.Renew(ctx, "s", "tok", "run-q", 0, time.Minute); return err },
		"Head":     func() error { _, err := st.Head(ctx, "s"); return err },
		"Snapshot": func() error { _, err := st.Snapshot(ctx, "s"); return err },
		"ReadLog":  func() error { _, err := st.ReadLog(ctx, "s", first.Incarnation, store.Origin, 0); return err },
		"Rows":     func() error { _, _, _, err := st.Rows(ctx, "s", 1, 0, 10, 1000); return err },
		"Delete":   func() error { _, err := st.Delete(ctx, "s", alice, "op", 0); return err },
	} {
		wantError(t, name, call(), store.ErrTooNew)
	}
}

// TestClosed: a closed store refuses.
func TestClosed(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	submitted(t, st, offer("s", "q"), store.Started)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := st.Submit(context.Background(), offer("s", "q2"))
	wantError(t, "Submit", err, store.ErrUnavailable)
	_, err = st.Subscribe(context.Background(), "s", func(store.Hint) {})
	wantError(t, "Subscribe", err, store.ErrUnavailable)
	_, err = st.List(context.Background(), store.ListQuery{})
	wantError(t, "List", err, store.ErrUnavailable)
}

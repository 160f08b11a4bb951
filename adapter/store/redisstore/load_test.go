//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// traffic is a number of sessions whose owner writes all the time. After an unknown
// outcome it sends the same batch again, as an owner does.
type traffic struct {
	t    *testing.T
	st   *Store
	sids []string
	acks []atomic.Int64 // last acknowledged sequence
	halt chan struct{}
	work sync.WaitGroup
}

func startTraffic(t *testing.T, st *Store, sids ...string) *traffic {
	t.Helper()
	l := &traffic{t: t, st: st, sids: sids, acks: make([]atomic.Int64, len(sids)), halt: make(chan struct{})}
	for i, sid := range sids {
		submitted(t, st, offer(sid, "q"), store.Started)
		l.work.Go(func() { l.write(i) })
	}
	return l
}

func (l *traffic) write(i int) {
	for seq := int64(1); ; {
		select {
		case <-l.halt:
			return
		default:
		}
		res, err := l.st.Append(context.Background(), deltas(l.sids[i], "run-q", seq, 1))
		switch {
		case err == nil && (res.Code == store.OK || res.Code == store.Dup):
			l.acks[i].Store(seq)
			seq++
		case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknown):
			select {
			case <-time.After(20 * time.Millisecond):
			case <-l.halt:
				return
			}
		default:
			l.t.Errorf("%s, %d: %s, %v", l.sids[i], seq, res.Code, err)
			return
		}
	}
}

// goesOn waits until each session has written n batches more.
func (l *traffic) goesOn(n int64) {
	l.t.Helper()
	for i := range l.sids {
		from := l.acks[i].Load()
		eventually(l.t, l.sids[i]+" goes on", func() bool { return l.acks[i].Load() >= from+n || l.t.Failed() })
	}
}

// stop ends the writers and checks the logs: everything that was acknowledged is
// there, once, in an unbroken chain.
func (l *traffic) stop() {
	l.t.Helper()
	close(l.halt)
	l.work.Wait()
	for i, sid := range l.sids {
		h := headOf(l.t, l.st, sid)
		wrote := h.Head.Offset - 1 // the user's message is the first entry
		if n := l.acks[i].Load(); wrote != n && wrote != n+1 {
			l.t.Errorf("%s has %d batches, %d were acknowledged", sid, wrote, n)
		}
		seen, at := int64(0), store.Origin
		for {
			read, err := l.st.ReadLog(l.t.Context(), sid, h.Incarnation, at, 0)
			if err != nil || read.Code != store.OK {
				l.t.Errorf("%s: ReadLog: %s, %v", sid, read.Code, err)
				break
			}
			if len(read.Entries) == 0 {
				break
			}
			seen += int64(len(read.Entries))
			at = read.Entries[len(read.Entries)-1].Position()
		}
		if seen != h.Head.Offset {
			l.t.Errorf("%s: %d entries can be read of %d", sid, seen, h.Head.Offset)
		}
	}
}

func sids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("s", i)
	}
	return all
}

// TestKilledUnderLoad: with appendfsync always nothing that was acknowledged is
// lost by crashes of the server, and nothing is written twice. Each crash is
// another generation.
func TestKilledUnderLoad(t *testing.T) {
	server := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st := open(t, Options{Addrs: []string{server.Addr}, Timeout: time.Second, BreakAfter: 300 * time.Millisecond})
	l := startTraffic(t, st, sids(12)...)
	for want := uint64(2); want <= 4; want++ {
		l.goesOn(10)
		server.Kill()
		server.Restart()
		l.goesOn(1)
		if g := st.Generation(); g != want {
			t.Errorf("generation %d, want %d", g, want)
		}
	}
	l.stop()
}

// TestPausedUnderLoad: a server that stands still and wakes has lost nothing, is
// the same generation, and executes nothing twice.
func TestPausedUnderLoad(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}, Timeout: 500 * time.Millisecond, BreakAfter: 300 * time.Millisecond})
	l := startTraffic(t, st, sids(12)...)
	for range 3 {
		l.goesOn(10)
		server.Pause()
		eventually(t, "the breaker opens", func() bool { return !st.Available() })
		server.Resume()
		l.goesOn(1)
	}
	if g := st.Generation(); g != 1 {
		t.Errorf("generation %d", g)
	}
	l.stop()
}

// TestSlotsMovedUnderLoad: the slots of sessions move to another node while their
// owners write. Nothing is lost or written twice, and no process has been replaced.
func TestSlotsMovedUnderLoad(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	st := openCluster(t, nodes, Options{Timeout: 2 * time.Second})
	l := startTraffic(t, st, sids(8)...)
	l.goesOn(10)
	for _, sid := range l.sids {
		i, slot := serving(t, st, nodes, sid)
		moveSlot(t, nodes, i, (i+1)%3, slot)
	}
	l.goesOn(10)
	l.stop()
	if g := st.Generation(); g != 1 {
		t.Errorf("generation %d", g)
	}
}

// moveSlot moves a slot with all of its keys, one by one.
func moveSlot(t *testing.T, nodes []*redisserver.Server, i, j int, slot string) {
	t.Helper()
	from, to := nodes[i], nodes[j]
	do := func(s *redisserver.Server, args ...any) {
		t.Helper()
		if got := s.Do(args...); got != "OK" && got != "NOKEY" {
			t.Fatalf("%v: %s", args, got)
		}
	}
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	do(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys := strings.Fields(strings.Trim(from.Do("CLUSTER", "GETKEYSINSLOT", slot, 1), "[]"))
		if len(keys) == 0 {
			break
		}
		do(from, "MIGRATE", host, port, keys[0], 0, 5000)
	}
	for _, s := range append([]*redisserver.Server{to, from}, nodes...) {
		do(s, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
}

// TestClusterFailover: a replica takes the place of a dead node of a cluster: the
// generation changes, sessions of the other nodes go on, and what the replica has
// is served.
func TestClusterFailover(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	replica := redisserver.StartReplica(t, nodes, 1)
	st := openCluster(t, nodes, Options{Timeout: time.Second, BreakAfter: 300 * time.Millisecond})
	l := startTraffic(t, st, sids(9)...)
	l.goesOn(5)
	eventually(t, "all nodes have been looked at", func() bool {
		st.generations.mu.Lock()
		defer st.generations.mu.Unlock()
		return st.generations.complete
	})
	if n := nodes[1].Do("WAIT", 1, 20_000); n != "1" {
		t.Fatalf("the replica does not follow: %s", n)
	}
	if g := st.Generation(); g != 1 {
		t.Fatalf("generation %d", g)
	}
	close(l.halt)
	l.work.Wait()
	l.halt = make(chan struct{})
	if n := nodes[1].Do("WAIT", 1, 20_000); n != "1" {
		t.Fatalf("the replica does not follow: %s", n)
	}
	nodes[1].Kill()
	if got := replica.Do("CLUSTER", "FAILOVER", "TAKEOVER"); got != "OK" {
		t.Fatal(got)
	}
	for i, sid := range l.sids {
		b := deltas(sid, "run-q", l.acks[i].Load()+1, 1)
		eventually(t, sid+" goes on", func() bool { return wrote(t, st, b) })
		l.acks[i].Add(1)
	}
	if g := st.Generation(); g != 2 {
		t.Errorf("generation %d", g)
	}
	eventually(t, "the dead node does not matter any more", st.Available)
	l.stop()
}

// TestStoreClockJumps: a store whose clock jumps ends a lease too early. Somebody
// takes the run over while its owner lives: from then on only one of both writes.
func TestStoreClockJumps(t *testing.T) {
	server := redisserver.Start(t)
	st, other := open(t, Options{Addrs: []string{server.Addr}}), open(t, Options{Addrs: []string{server.Addr}, Node: "n2"})
	first := submitted(t, st, offer("s", "q"), store.Started)
	var fenced atomic.Bool
	var owners, takers atomic.Int64
	var work sync.WaitGroup
	write := func(st *Store, token string, count *atomic.Int64, until func(n int64) bool) {
		for seq := int64(1); !until(seq); seq++ {
			b := deltas("s", "run-q", seq, 1)
			b.Token, b.Stamp = token, fmt.Sprintf("%.1s%05d", token, seq)
			res, err := st.Append(context.Background(), b)
			if err != nil {
				t.Error(err)
				return
			}
			if res.Code == store.Fenced {
				fenced.Store(true)
				return
			}
			if res.Code != store.OK {
				t.Errorf("%s: %s", token, res.Code)
				return
			}
			count.Add(1)
		}
	}
	work.Go(func() { write(st, "tok", &owners, func(int64) bool { return false }) })
	eventually(t, "the owner writes", func() bool { return owners.Load() > 20 })
	eventually(t, "the run is taken over", func() bool {
		server.Do("PEXPIREAT", st.sessionKey("l", "s"), 1) // the clock is far ahead for a moment
		res, err := other.TakeOver(t.Context(), store.TakeOverArgs{SID: "s", Token: "taker", Node: "n2", TTL: store.LeaseTTL})
		if err != nil {
			t.Fatal(err)
		}
		return res.Code == store.Resumed
	})
	write(other, "taker", &takers, func(n int64) bool { return n > 20 && fenced.Load() })
	work.Wait()
	read, at := int64(0), store.Origin
	for {
		res, err := st.ReadLog(t.Context(), "s", first.Incarnation, at, 0)
		if err != nil || res.Code != store.OK {
			t.Fatalf("ReadLog: %s, %v", res.Code, err)
		}
		if len(res.Entries) == 0 {
			break
		}
		read += int64(len(res.Entries))
		at = res.Entries[len(res.Entries)-1].Position()
	}
	if want := 1 + owners.Load() + takers.Load(); read != want {
		t.Fatalf("%d entries, %d were acknowledged", read, want)
	}
	// A clock that was set back: the lease lasts too long, and nobody takes over.
	server.Do("PERSIST", st.sessionKey("l", "s"))
	res, err := st.TakeOver(t.Context(), store.TakeOverArgs{SID: "s", Token: "third", Node: "n1", TTL: store.LeaseTTL})
	if err != nil || res.Code != store.Held {
		t.Fatalf("TakeOver: %s, %v", res.Code, err)
	}
}

//go:build unix

package redisstore

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

func openCluster(t *testing.T, nodes []*redisserver.Server, o Options) *Store {
	o.Mode = Cluster
	for _, n := range nodes {
		o.Addrs = append(o.Addrs, n.Addr)
	}
	return open(t, o)
}

// serving returns the node that has a session's slot.
func serving(t *testing.T, st *Store, nodes []*redisserver.Server, sid string) (int, string) {
	t.Helper()
	slot := nodes[0].Do("CLUSTER", "KEYSLOT", st.sessionKey("h", sid))
	n, err := strconv.Atoi(slot)
	if err != nil {
		t.Fatal(slot)
	}
	for i := range nodes {
		if n < (i+1)*16384/len(nodes) {
			return i, slot
		}
	}
	return 0, slot
}

// TestSlotMoved: a session's slot moves to another node while its run goes on. In
// between, when some keys have moved, a batch is refused as a whole; nothing is
// lost or written twice.
func TestSlotMoved(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	st := openCluster(t, nodes, Options{})
	first := submitted(t, st, offer("s", "q"), store.Started)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	i, slot := serving(t, st, nodes, "s")
	from, to := nodes[i], nodes[(i+1)%3]
	fromID, toID := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	ok := func(s *redisserver.Server, args ...any) {
		t.Helper()
		if got := s.Do(args...); got != "OK" {
			t.Fatalf("%v: %s", args, got)
		}
	}
	ok(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	ok(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	host, port, _ := net.SplitHostPort(to.Addr)
	keys := []string{st.sessionKey("h", "s"), st.sessionKey("e", "s"), st.sessionKey("l", "s"), st.sessionKey("d", "s"),
		st.sessionKey("dx", "s"), st.sessionKey("i", "s"), st.sessionKey("t", "s")}
	ok(from, "MIGRATE", host, port, keys[0], 0, 5000)
	batch := deltas("s", "run-q", 2, 1)
	_, err := st.Append(t.Context(), batch)
	wantError(t, "Append to half a session", err, store.ErrUnavailable)
	for _, k := range keys[1:] {
		ok(from, "MIGRATE", host, port, k, 0, 5000)
	}
	for _, s := range []*redisserver.Server{to, from, nodes[(i+2)%3]} {
		ok(s, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	eventually(t, "the client learns of it", func() bool { return wrote(t, st, batch) })
	read, err := st.ReadLog(t.Context(), "s", first.Incarnation, store.Origin, 0)
	if err != nil || read.Code != store.OK || len(read.Entries) != 3 {
		t.Fatalf("ReadLog: %s, %d entries, %v", read.Code, len(read.Entries), err)
	}
}

// TestDeadShard: the sessions of one dead node are refused within moments, those
// of the others go on.
func TestDeadShard(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	st := openCluster(t, nodes, Options{Timeout: time.Second, BreakAfter: 300 * time.Millisecond})
	sids := make([]string, len(nodes))
	for n := 0; slices.Contains(sids, ""); n++ {
		sid := fmt.Sprint("s", n)
		i, _ := serving(t, st, nodes, sid)
		if sids[i] == "" {
			sids[i] = sid
			submitted(t, st, offer(sid, "q"), store.Started)
		}
	}
	// Session lists stand on nodes of their own; their sessions are known by now.
	nodes[1].Kill()
	eventually(t, "calls are refused at once", func() bool {
		_, err := st.Append(t.Context(), deltas(sids[1], "run-q", 1, 1))
		if err == nil {
			t.Fatal("a dead node answers")
		}
		return errors.Is(err, errOpen) && errors.Is(err, store.ErrUnavailable)
	})
	for _, i := range []int{0, 2} {
		appended(t, st, deltas(sids[i], "run-q", 1, 1), store.OK)
	}
	if st.Available() {
		t.Fatal("the store calls itself available")
	}
	nodes[1].Restart()
	eventually(t, "the breaker closes", st.Available)
}

// TestProblems: an eviction policy that may drop sessions is told, also where
// only one node of several has it.
func TestProblems(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	st := openCluster(t, nodes, Options{})
	check := func(want int) {
		t.Helper()
		found, err := st.Problems(t.Context())
		if err != nil || len(found) != want {
			t.Fatalf("%q, %v", found, err)
		}
		if want > 0 && (!strings.Contains(found[0], nodes[2].Addr) || !strings.Contains(found[0], "noeviction")) {
			t.Fatal(found[0])
		}
	}
	check(0)
	nodes[2].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	check(1)
	nodes[2].Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	durable := openCluster(t, nodes, Options{Durability: DurabilityReplica})
	if found, err := durable.Problems(t.Context()); err != nil || len(found) != 3 || !strings.Contains(found[0], "replica") {
		t.Fatalf("%q, %v", found, err)
	}
	for v, want := range map[string]bool{"6.0.16": true, "5.0": true, "6.2.0": false, "7.0.15": false, "10.1": false, "x": false, "": false} {
		if older(v, 6, 2) != want {
			t.Errorf("%q", v)
		}
	}
}

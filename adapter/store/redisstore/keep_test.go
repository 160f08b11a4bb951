//go:build unix

package redisstore

import (
	"strconv"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// kept returns the offsets of the first and the last entry of a session's log.
func kept(t *testing.T, st *Store, sid string) (first, last int64) {
	t.Helper()
	found, err := st.current.client.XRange(t.Context(), st.sessionKey("e", sid), "-", "+").Result()
	if err != nil || len(found) == 0 {
		t.Fatalf("%d entries, %v", len(found), err)
	}
	number := func(id string) int64 {
		n, err := strconv.ParseInt(id[:len(id)-2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return number(found[0].ID), number(found[len(found)-1].ID)
}

// TestTrim: a checkpoint trims the log by bytes too; the end of a run leaves at
// least what it has written itself (contract section 3, H21).
func TestTrim(t *testing.T) {
	server := redisserver.Start(t)
	l := store.DefaultLimits()
	l.LogKeep, l.LogKeepBytes = 50, 4096
	st := open(t, Options{Addrs: []string{server.Addr}, Limits: l})
	submitted(t, st, offer("s", "q"), store.Started)
	one := entrySize(deltas("s", "run-q", 1, 1).Events[0])
	for seq := range int64(100) {
		b := deltas("s", "run-q", seq+1, 1)
		if seq == 99 {
			b.Checkpoint = []byte("folded")
		}
		appended(t, st, b, store.OK)
	}
	first, last := kept(t, st, "s")
	if size := (last - first + 1) * one; last != 101 || size < 4096-one || size > 4096+one {
		t.Fatalf("%d to %d kept, %d bytes", first, last, size)
	}
	a := store.FinishArgs{Batch: deltas("s", "run-q", 101, 60), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
	if res, err := st.Finish(t.Context(), a); err != nil || res.Code != store.Idle {
		t.Fatal(res.Code, err)
	}
	if first, last := kept(t, st, "s"); first != 102 || last != 162 {
		t.Fatalf("%d to %d kept of the end", first, last)
	}
}

// entrySize is what the log counts for an entry.
func entrySize(e store.NewEntry) int64 { return int64(64 + len(e.Name) + len(e.Payload)) }

// TestRootExpiresFirst: no half session is ever seen (contract 2.1).
func TestRootExpiresFirst(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	submitted(t, st, offer("s", "q"), store.Started)
	ttl := func(key string) int64 {
		t.Helper()
		n, err := strconv.ParseInt(server.Do("PEXPIRETIME", st.sessionKey(key, "s")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, k := range []string{"h", "t", "e", "d", "dx", "i"} {
		if ttl(k) != -1 {
			t.Errorf("key %s of a busy session runs out", k)
		}
	}
	a := store.FinishArgs{Batch: deltas("s", "run-q", 1, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
	if res, err := st.Finish(t.Context(), a); err != nil || res.Code != store.Idle {
		t.Fatal(res.Code, err)
	}
	for _, k := range []string{"t", "d", "dx"} {
		if ttl(k) != ttl("h")+expiryMargin.Milliseconds() {
			t.Errorf("key %s: %d, root: %d", k, ttl(k), ttl("h"))
		}
	}
	for _, k := range []string{"q", "i", "k", "l"} {
		if ttl(k) != -2 {
			t.Errorf("key %s of an idle session is there", k)
		}
	}
}

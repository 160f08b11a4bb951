//go:build unix

package redisstore

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// TestNotices: a node hears what others send to it, and nothing of what is sent to
// others or of its own probes.
func TestNotices(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	a := openCluster(t, nodes, Options{Node: "a", probeInterval: 50 * time.Millisecond})
	b := openCluster(t, nodes, Options{Node: "b{x}:y"})
	heard := make(chan store.Notice, 10)
	a.OnNotice(func(n store.Notice) { heard <- n })
	want := store.Notice{Kind: store.NoticeWork, Subject: "a session with spaces"}
	send := func() bool {
		for node, n := range map[string]store.Notice{"a": want, "b{x}:y": {Kind: store.NoticeKick, Subject: "cid"}} {
			if err := b.Notify(t.Context(), node, n); err != nil {
				t.Fatal(err)
			}
		}
		return len(heard) > 0
	}
	eventually(t, "a notice", send)
	eventually(t, "more notices", func() bool { send(); return len(heard) > 5 })
	for len(heard) > 0 {
		if got := <-heard; got != want {
			t.Fatalf("%+v", got)
		}
	}
}

// TestLiveNodes: many nodes are answered by name, without the one that has left,
// also where the record of one has ended before its name.
func TestLiveNodes(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	var want []string
	for i := range 2*pipelineBatch + 3 {
		n := store.Node{Name: fmt.Sprintf("n%04d", i), Address: "10.0.0.1:8443", Fingerprint: "ab", Version: "1", Runs: i, Caps: []string{"gateway", "bridge"}}
		if err := st.Announce(t.Context(), n, time.Minute); err != nil {
			t.Fatal(err)
		}
		want = append(want, n.Name)
	}
	if err := st.Resign(t.Context(), want[0]); err != nil {
		t.Fatal(err)
	}
	server.Do("DEL", st.nodeKey(want[1]))
	live, err := st.LiveNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range live {
		names = append(names, n.Name)
	}
	if !slices.Equal(names, want[2:]) {
		t.Fatalf("%q", names)
	}
	if n := live[0]; n.Address != "10.0.0.1:8443" || n.Fingerprint != "ab" || n.Version != "1" || n.Runs != 2 || !slices.Equal(n.Caps, []string{"gateway", "bridge"}) {
		t.Fatalf("%+v", n)
	}
	if _, ok, err := st.LookupNode(t.Context(), want[0]); ok || err != nil {
		t.Fatal(ok, err)
	}
}

// TestSlotOrder: places are given in the order of first asking; who does not ask
// again falls out.
func TestSlotOrder(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	take := func(run string, code store.Code, place int) {
		t.Helper()
		res, err := st.TakeSlot(t.Context(), "gw", run, 2, time.Minute)
		if err != nil || res != (store.SlotResult{Code: code, Place: place}) {
			t.Fatalf("%s: %+v, %v; want %s %d", run, res, err, code, place)
		}
	}
	free := func(run string) {
		t.Helper()
		if err := st.FreeSlot(t.Context(), "gw", run); err != nil {
			t.Fatal(err)
		}
	}
	take("a", store.OK, 0)
	take("b", store.OK, 0)
	take("c", store.Waiting, 1)
	take("d", store.Waiting, 2)
	take("e", store.Waiting, 3)
	free("a")
	take("d", store.Waiting, 2) // c was first
	take("c", store.OK, 0)
	free("d")
	take("e", store.Waiting, 1)
	free("b")
	take("f", store.Waiting, 2)
	take("e", store.OK, 0)
	for _, run := range []string{"c", "e"} {
		server.Do("ZADD", st.slotKeys("gw")[0], 1, run) // they have not asked again
	}
	take("f", store.OK, 0)
	take("f", store.OK, 0)
	if res, err := st.TakeSlot(t.Context(), "other", "a", 1, time.Minute); err != nil || res.Code != store.OK {
		t.Fatal(res, err)
	}
}

// TestUnixSocket: the store works over a Unix socket.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.sock")
	redisserver.Start(t, "--unixsocket", path)
	o, err := ParseURL("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	st := open(t, o)
	submitted(t, st, offer("s", "q"), store.Started)
	if v, err := st.Secret(t.Context(), "token", "one"); err != nil || v != "one" {
		t.Fatal(v, err)
	}
	if v, err := st.Secret(t.Context(), "token", "two"); err != nil || v != "one" {
		t.Fatal(v, err)
	}
	if err := st.ReplaceSecret(t.Context(), "token", "two"); err != nil {
		t.Fatal(err)
	}
	if v, err := st.Secret(t.Context(), "token", "three"); err != nil || v != "two" {
		t.Fatal(v, err)
	}
}

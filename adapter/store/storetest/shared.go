package storetest

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// SharedHarness gives RunShared a fresh, empty store that several nodes use.
type SharedHarness struct {
	// Nodes are independent clients, at least two, and Names the names of their
	// nodes, to which notices go.
	Nodes []store.Shared
	Names []string
	// Pass lets at least d of the store's time pass.
	Pass func(d time.Duration)
}

// RunShared runs the suite of what store.Shared adds to a store.
func RunShared(t *testing.T, open func(t *testing.T) SharedHarness) {
	for name, run := range map[string]func(*testing.T, SharedHarness){
		"a secret is the one that was first":             secretFirst,
		"of many secrets at once one wins":               secretRace,
		"a secret is replaced for all":                   secretReplaced,
		"nodes are found while they announce themselves": nodesLive,
		"nodes are listed by name":                       nodesListed,
		"a notice reaches its node and no other":         notices,
		"a store that answers is available":              available,
	} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

func secret(t *testing.T, st store.Shared, name, candidate string) string {
	t.Helper()
	v, err := st.Secret(t.Context(), name, candidate)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func secretFirst(t *testing.T, h SharedHarness) {
	a, b := h.Nodes[0], h.Nodes[1]
	if v := secret(t, a, "token", "one"); v != "one" {
		t.Fatalf("%q", v)
	}
	if v := secret(t, b, "token", "two"); v != "one" {
		t.Fatalf("%q", v)
	}
	if v := secret(t, b, "another", "three"); v != "three" {
		t.Fatalf("%q", v)
	}
	h.Pass(365 * 24 * time.Hour)
	if v := secret(t, a, "token", "four"); v != "one" {
		t.Fatalf("%q after a year", v)
	}
}

func secretRace(t *testing.T, h SharedHarness) {
	got := make([]string, 8)
	var calls []func()
	for i := range got {
		calls = append(calls, func() {
			v, err := h.Nodes[i%len(h.Nodes)].Secret(t.Context(), "token", fmt.Sprint("candidate ", i))
			if err != nil {
				t.Error(err)
			}
			got[i] = v
		})
	}
	parallel(calls...)
	won := secret(t, h.Nodes[0], "token", "late")
	for i, v := range got {
		if v != won || v == "" || v == "late" {
			t.Fatalf("caller %d got %q, the store has %q", i, v, won)
		}
	}
}

func secretReplaced(t *testing.T, h SharedHarness) {
	a, b := h.Nodes[0], h.Nodes[1]
	for _, want := range []string{"new", "newer"} { // whether there is one or not
		if err := a.ReplaceSecret(t.Context(), "token", want); err != nil {
			t.Fatal(err)
		}
		if v := secret(t, b, "token", "candidate"); v != want {
			t.Fatalf("%q, want %q", v, want)
		}
	}
}

func announce(t *testing.T, st store.Shared, n store.Node, ttl time.Duration) {
	t.Helper()
	if err := st.Announce(t.Context(), n, ttl); err != nil {
		t.Fatal(err)
	}
}

// living checks what a store tells of the nodes that live, all of them and each.
func living(t *testing.T, st store.Shared, want ...store.Node) {
	t.Helper()
	live, err := st.LiveNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(live)+len(want) > 0 && !reflect.DeepEqual(live, want) {
		t.Fatalf("living: %+v, want %+v", live, want)
	}
	for _, n := range want {
		got, ok, err := st.LookupNode(t.Context(), n.Name)
		if err != nil || !ok || !reflect.DeepEqual(got, n) {
			t.Fatalf("%s: %+v, %v, %v", n.Name, got, ok, err)
		}
	}
}

func nodesLive(t *testing.T, h SharedHarness) {
	a, b := h.Nodes[0], h.Nodes[1]
	living(t, b)
	one := store.Node{Name: "one", Address: "10.0.0.1:8443", Fingerprint: "ab", Version: "1.2", Runs: 3, Caps: []string{"gateway", "bridge"}}
	two := store.Node{Name: "two", Caps: []string{"gateway"}}
	announce(t, a, one, 15*time.Second)
	announce(t, b, two, 15*time.Second)
	living(t, b, one, two)
	h.Pass(10 * time.Second)
	one.Runs = 4
	announce(t, a, one, 15*time.Second)
	h.Pass(10 * time.Second)
	living(t, b, one)
	if n, ok, err := b.LookupNode(t.Context(), "two"); ok || err != nil {
		t.Fatalf("a node that is silent lives: %+v, %v", n, err)
	}
	announce(t, b, two, 15*time.Second)
	living(t, a, one, two)
	for range 2 {
		if err := b.Resign(t.Context(), "two"); err != nil {
			t.Fatal(err)
		}
		living(t, a, one)
	}
}

func nodesListed(t *testing.T, h SharedHarness) {
	var want []store.Node
	for i := range 12 {
		want = append(want, store.Node{Name: fmt.Sprintf("node-%02d", i), Address: "h:1", Caps: []string{"gateway"}})
	}
	for i := range want {
		announce(t, h.Nodes[i%len(h.Nodes)], want[len(want)-1-i], time.Minute)
	}
	living(t, h.Nodes[0], want...)
}

// notices may be lost, so they are sent again until one arrives.
func notices(t *testing.T, h SharedHarness) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := make([]chan store.Notice, len(h.Nodes))
	for i, st := range h.Nodes {
		heard[i] = make(chan store.Notice, 64)
		st.OnNotice(func(n store.Notice) {
			select {
			case heard[i] <- n:
			default:
			}
		})
		announce(t, st, store.Node{Name: h.Names[i]}, time.Minute)
	}
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	to := func(i int) store.Notice { return store.Notice{Kind: store.NoticeWork, Subject: "for " + h.Names[i]} }
	for i := range h.Nodes {
		for arrived := false; !arrived; {
			for k := range h.Nodes {
				if err := h.Nodes[len(h.Nodes)-1-k].Notify(ctx, h.Names[k], to(k)); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case n := <-heard[i]:
				arrived = true
				if n != to(i) {
					t.Fatalf("%s heard %+v", h.Names[i], n)
				}
			case <-again.C:
			case <-ctx.Done():
				t.Fatalf("%s hears nothing", h.Names[i])
			}
		}
	}
	for i := range heard {
		for len(heard[i]) > 0 {
			if n := <-heard[i]; n != to(i) {
				t.Fatalf("%s heard %+v", h.Names[i], n)
			}
		}
	}
	if err := h.Nodes[0].Notify(ctx, "nobody", store.Notice{Kind: store.NoticeKick, Subject: "x"}); err != nil {
		t.Fatal(err)
	}
}

func available(t *testing.T, h SharedHarness) {
	for _, st := range h.Nodes {
		secret(t, st, "token", "one")
		if !st.Available() {
			t.Fatal("a store that has just answered is not available")
		}
		if _, err := st.Problems(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

//go:build unix

package edge

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// bystander is a node of the test's own on the Redis of a core.
func bystander(t *testing.T, r *redisserver.Server, n store.Node) <-chan store.Notice {
	t.Helper()
	var s Settings
	sharing(r)(&s)
	s.Redis.Node = n.Name
	st, err := redisstore.Open(*s.Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	notices := make(chan store.Notice, 100)
	st.OnNotice(func(n store.Notice) {
		if n.Kind == store.NoticeWork {
			notices <- n
		}
	})
	if err := st.Announce(t.Context(), n, time.Minute); err != nil {
		t.Fatal(err)
	}
	return notices
}

func lookup(t *testing.T, e *env, name string) store.Node {
	t.Helper()
	n, _, err := e.core.backend.Load().shared.LookupNode(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A node says of itself what others need to know, and that it takes no work once it
// goes away.
func TestNodeRecord(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	e := start(t, sharing(r))
	eventually(t, "the node is announced", func() bool {
		n := lookup(t, e, e.core.node)
		return n.Address != "" && n.Fingerprint != "" && slices.Equal(n.Caps, []string{"gateway"})
	})
	other := e.startNode(nil)
	e.core.BeginExit()
	eventually(t, "the node takes no work", func() bool {
		n := lookup(t, other, e.core.node)
		return n.Name != "" && len(n.Caps) == 0
	})
}

// Work is offered to the node with the fewest runs among those that can carry it.
func TestWorkIsOfferedToOneThatCarriesIt(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	e := start(t, sharing(r))
	bystander(t, r, store.Node{Name: "idle-but-other", Caps: []string{"bridge"}})
	bystander(t, r, store.Node{Name: "busy", Caps: []string{"gateway"}, Runs: 5})
	fit := bystander(t, r, store.Node{Name: "fit", Caps: []string{"bridge", "gateway"}, Runs: 2})
	notice := store.Notice{Kind: store.NoticeWork, Subject: "s1"}
	eventually(t, "the fit node is told", func() bool { // its subscription may begin later
		e.core.notifyWork(t.Context(), notice, "gateway")
		select {
		case got := <-fit:
			return got == notice
		default:
			return false
		}
	})
}

// Notices are hints: more than can be attended are dropped, and nobody waits.
func TestNoticesAreBounded(t *testing.T) {
	t.Parallel()
	c := NewCore("redis:none", Deps{})
	for range 10 * maxNotices {
		c.noticed(store.Notice{Kind: store.NoticeWork, Subject: "s"})
	}
	if got := len(c.notices); got != maxNotices {
		t.Errorf("%d notices wait", got)
	}
	drain(t, c)
}

// A core that never reached its Redis ends as quickly as any other.
func TestDrainBeforeRedisIsReached(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	r.Kill()
	e := start(t, sharing(r))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	e.core.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the window was used up")
	}
}

// Names are for people; two processes of one name are two nodes.
func TestNodeID(t *testing.T) {
	a, b := NewCore("k", Deps{Node: "web1"}), NewCore("k", Deps{Node: "web1"})
	defer drain(t, a)
	defer drain(t, b)
	if a.node == b.node || a.node[:5] != "web1-" {
		t.Errorf("nodes %s and %s", a.node, b.node)
	}
}

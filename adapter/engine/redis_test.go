//go:build unix

package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// onRedis starts nodes, each with a store of its own, on one real server.
func onRedis(t *testing.T, server *redisserver.Server, names ...string) []*node {
	t.Helper()
	c := &cluster{t: t}
	for _, name := range names {
		n := &node{cluster: c, name: name, x: &script{calls: make(chan *call)}, gauges: &gauges{}}
		st, err := redisstore.Open(redisstore.Options{Addrs: []string{server.Addr}, Node: name, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		n.e = engine.New(engine.Config{
			Store: st, Node: name, Logger: zaptest.NewLogger(t, zaptest.Level(zap.FatalLevel)), Metrics: n.gauges,
			Executors: func(string) (string, engine.Executor, error) { return "gateway", n.x, nil },
			Profiles:  func() []string { return []string{"default"} },
			Limits:    func() engine.Limits { return engine.Limits{} },
		})
		if err := n.e.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			n.e.Close()
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		c.nodes = append(c.nodes, n)
	}
	return c.nodes
}

// A run, its stop, a cancelled message and a deletion, each asked for on another node
// than the owner's.
func TestRedisControlFromAnyNode(t *testing.T) {
	nodes := onRedis(t, redisserver.Start(t), "n1", "n2")
	a, run := begin(t, nodes[0])
	b := nodes[1].client("alice")
	b.resume("s1")
	run.say("two ")
	b.came("two ")
	a.run("s1", "q2", "second")
	b.waitFor(0, "run.queued")
	a.run("s1", "q3", "third")
	_, at := b.wait(0, "two queued", func(e received) bool { return e.name == "run.queued" && e.num("queue_length") == 2 })
	nodes[1].e.CancelQueued(context.Background(), b, encode(map[string]any{"session_id": "s1", "queue_id": "q2"}))
	a.wait(0, "one queued", func(e received) bool {
		list, _ := e.data["queued_messages"].([]any)
		return e.name == "run.queued" && len(list) == 1 && list[0].(map[string]any)["id"] == "q3"
	})
	b.abort("s1")
	<-run.ctx.Done()
	b.waitFor(at, "abort.completed")
	third := nodes[0].next()
	if third.turn.Input.Text != "third" {
		t.Errorf("ran %q", third.turn.Input.Text)
	}
	third.start(t, "r3")
	alice := &auth.Principal{User: "alice", Profiles: []string{"default"}}
	if err := nodes[1].e.DeleteSession(context.Background(), alice, "s1"); err != nil {
		t.Fatal(err)
	}
	<-third.ctx.Done()
	for _, w := range []*client{a, b} {
		w.waitFor(0, "session.deleted")
		if w.endings() != 2 {
			t.Errorf("%s: %s", w.id, names(w.seen(0)))
		}
	}
}

// Contract 9.2: a server that is stopped and goes on: the run streams on, and nothing is
// lost or comes twice.
func TestRedisIsPausedInMidRun(t *testing.T) {
	server := redisserver.Start(t)
	nodes := onRedis(t, server, "n1", "n2")
	a, run := begin(t, nodes[0])
	b := nodes[1].client("alice")
	b.resume("s1")
	server.Pause()
	run.say("two ")
	run.say("three ")
	a.came("One two three ")
	run.end(engine.Outcome{Output: "One two three "})
	if a.endings() != 0 {
		t.Error("ended without the store")
	}
	server.Resume()
	a.waitFor(0, "run.completed")
	b.waitFor(0, "run.completed")
	if a.text(0) != "One two three " || b.text(0) != "two three " {
		t.Errorf("%q and %q", a.text(0), b.text(0))
	}
	if a.endings() != 1 || b.endings() != 1 {
		t.Errorf("%d and %d endings", a.endings(), b.endings())
	}
}

// H20, contract 9.6: a server that comes back empty: the owner brings its run back.
func TestRedisComesBackEmpty(t *testing.T) {
	server := redisserver.Start(t)
	nodes := onRedis(t, server, "n1", "n2")
	_, run := begin(t, nodes[0])
	server.Kill()
	run.say("two ")
	server.Restart()
	// The answer comes as soon as the owner has brought the run back.
	deadline := time.Now().Add(patience)
	var got received
	for b := nodes[1].client("alice"); time.Now().Before(deadline); {
		at := len(b.seen(0))
		b.e.Resume(context.Background(), b, encode(map[string]any{"session_id": "s1"}))
		if got, _ = b.waitFor(at, "resumed"); got.data["isWorking"] == true {
			break
		}
	}
	if text := shown(got); !strings.HasPrefix(text, "one|One two ") {
		t.Fatalf("brought back: %q", text)
	}
	run.say("three")
	run.end(engine.Outcome{Output: "One two three", Usage: store.Usage{Input: 1, Output: 2}})
	b := nodes[1].client("alice")
	if ev := b.resume("s1"); ev.data["isWorking"] == true {
		b.waitFor(0, "run.completed")
	}
	if text := shown(nodes[0].client("alice").resume("s1")); text != "one|One two three|" {
		t.Errorf("kept: %q", text)
	}
	if n := nodes[0].gauges.reinstated.Load(); n != 1 {
		t.Errorf("brought back %d times", n)
	}
}

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// cluster is several nodes on one store that may be away and lose writes.
type cluster struct {
	t     *testing.T
	st    *memory.Store
	nodes []*node
	n     int
}

// node is one engine with its own way to the store and its own executor.
type node struct {
	*cluster
	name    string
	e       *engine.Engine
	weather *weather
	x       *script
	gauges  *gauges
}

// inCluster runs a test on n nodes in virtual time.
func inCluster(t *testing.T, n int, test func(t *testing.T, c *cluster, nodes []*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, st: memory.New(memory.Options{FallsBack: true})}
		for range n {
			c.start(nil)
		}
		time.Sleep(6 * time.Second) // starting nodes settle
		test(t, c, c.nodes)
	})
}

// idle asserts that no node carries anything out and that nothing of a session waits.
func (c *cluster) idle(sid string) {
	c.t.Helper()
	for _, n := range c.nodes {
		select {
		case run := <-n.x.calls:
			c.t.Errorf("%q runs on %s", run.turn.Input.Text, n.name)
		default:
		}
	}
	if c.head(sid).Busy() {
		c.t.Errorf("%s is busy", sid)
	}
}

// start adds a node.
func (c *cluster) start(change func(*engine.Config, *node)) *node {
	c.t.Helper()
	n := &node{
		cluster: c, name: fmt.Sprintf("n%d", len(c.nodes)+1), weather: newWeather(c.st),
		x: &script{calls: make(chan *call)}, gauges: &gauges{},
	}
	cfg := engine.Config{
		Store: n.weather, Node: n.name, Logger: zaptest.NewLogger(c.t, zaptest.Level(zap.FatalLevel)),
		Executors: func(profile string) (string, engine.Executor, error) { return "gateway", n.x, nil },
		Profiles:  func() []string { return []string{"default", "work"} },
		Limits:    func() engine.Limits { return engine.Limits{} },
		Metrics:   n.gauges,
	}
	if change != nil {
		change(&cfg, n)
	}
	n.e = engine.New(cfg)
	if err := n.e.Start(context.Background()); err != nil {
		c.t.Fatal(err)
	}
	c.nodes = append(c.nodes, n)
	c.t.Cleanup(n.kill)
	return n
}

// kill ends a node without a word to anybody.
func (n *node) kill() {
	n.weather.set(down)
	n.e.Close()
}

func (n *node) client(user string) *client {
	n.n++
	return &client{
		t: n.t, e: n.e, id: fmt.Sprintf("%s-%d@%s", user, n.n, n.name),
		user: &auth.Principal{User: user, Profiles: []string{"default"}}, changed: make(chan struct{}), rooms: map[string]engine.Room{},
	}
}

// next answers the next run that reaches the node's executor.
func (n *node) next() *call {
	n.t.Helper()
	select {
	case c := <-n.x.calls:
		return c
	case <-time.After(time.Minute):
		n.t.Fatalf("no run reached %s", n.name)
		return nil
	}
}

func (c *cluster) head(sid string) *store.Session {
	c.t.Helper()
	heads, err := c.st.Head(context.Background(), sid)
	if err != nil {
		c.t.Fatal(err)
	}
	return &heads[0]
}

// fallBack puts another server process in the place of the store's, with what there
// was at a mark. Meanwhile it is away for everybody, for a while.
func (c *cluster) fallBack(m *memory.Mark, outage time.Duration) {
	for _, n := range c.nodes {
		n.weather.set(down)
	}
	time.Sleep(outage)
	synctest.Wait()
	c.st.FallBack(m)
	for _, n := range c.nodes {
		n.weather.set(clear)
	}
}

// mark remembers the store as it is.
func (c *cluster) mark() *memory.Mark {
	synctest.Wait()
	return c.st.Mark()
}

// endings counts what ends a run.
func (c *client) endings() int {
	n := 0
	for _, e := range c.seen(0) {
		if e.name == "run.completed" || e.name == "run.failed" || e.name == "abort.completed" && e.data["ignored"] == nil {
			n++
		}
	}
	return n
}

// closedFor answers why the engine has closed the socket, "" if it has not.
func (c *client) closedFor() engine.CloseReason { c.mu.Lock(); defer c.mu.Unlock(); return c.closed }

// came waits until a client has got a text in all.
func (c *client) came(text string) {
	c.t.Helper()
	c.wait(0, fmt.Sprintf("text %q", text), func(received) bool { return c.textLocked() == text })
}

func (c *client) textLocked() string {
	out := ""
	for _, e := range c.events {
		if e.name == "message.delta" {
			out += e.str("delta")
		}
	}
	return out
}

//go:build unix

package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

const readyLimit = 90 * time.Second

// Cluster is the nodes and their Redis.
type Cluster struct {
	t     testing.TB
	clock clock
	nodes []*e2e.Edge
	names []string
	ways  balancer
	redis *redisserver.Server // nil: one node with the embedded store

	faults []Fault
}

// clusterConfig says what the nodes of a cluster serve.
type clusterConfig struct {
	gateway string
	users   []e2e.User
	nodes   int
	redis   bool
	folder  func(node string) string
}

// timings of connections: a client notices a paused node within seconds.
var timings = []string{"timeouts {", "ping_interval 3s", "ping_timeout 5s", "}"}

func startCluster(t testing.TB, clock clock, config clusterConfig) *Cluster {
	t.Helper()
	c := &Cluster{t: t, clock: clock}
	if config.redis {
		c.redis = redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	}
	for i := range config.nodes {
		name := "n" + strconv.Itoa(i+1)
		options := slices.Clone(timings)
		if c.redis != nil {
			options = append(options, "redis redis://"+c.redis.Addr, "node "+name)
		}
		node, err := e2e.NewEdge(config.folder(name), e2e.Config{
			Gateways: map[string]e2e.Upstream{"default": {URL: config.gateway}}, Users: config.users, Options: options,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes, c.names = append(c.nodes, node), append(c.names, name)
		c.ways.add(node.URL, name)
		node.MustStart(t)
		t.Cleanup(func() { c.endNode(i) })
	}
	return c
}

// endNode stops a node at the end of the test.
func (c *Cluster) endNode(i int) {
	node := c.nodes[i]
	if node.Running() {
		_ = node.Resume() // it may be paused
	}
	if err := node.Stop(); err != nil {
		c.t.Errorf("%s: %v", c.names[i], err)
	}
	for _, fault := range node.Faults() {
		c.t.Errorf("%s: %s", c.names[i], fault)
	}
}

// moment is one half of a step: the fault, or its healing.
type moment struct {
	at   time.Duration
	step Step
	heal bool
}

// moments lists what is to be done, in order.
func (p Plan) moments() []moment {
	var all []moment
	for _, s := range p.Steps {
		all = append(all, moment{s.At, s, false}, moment{s.At + s.For, s, true})
	}
	slices.SortStableFunc(all, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	return all
}

// Carry carries the plan out; it returns when the time of the plan is over.
func (c *Cluster) Carry(ctx context.Context, p Plan) {
	begin := time.Now()
	for _, m := range p.moments() {
		if m.at >= p.Duration {
			break
		}
		if !wait(ctx, time.Until(begin.Add(m.at))) {
			return
		}
		c.do(m.step, m.heal)
	}
	wait(ctx, time.Until(begin.Add(p.Duration)))
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Cluster) note(format string, args ...any) {
	c.faults = append(c.faults, Fault{c.clock.now(), fmt.Sprintf(format, args...)})
}

func (c *Cluster) do(s Step, heal bool) {
	switch {
	case onRedis(s.What) && heal:
		c.note("redis healed")
		c.healRedis()
	case onRedis(s.What):
		c.note("redis %s", s.What)
		c.hurtRedis(s.What)
	case heal:
		c.note("node %s healed", c.names[s.Node])
		c.healNode(s.Node)
	default:
		c.note("node %s %s", c.names[s.Node], s.What)
		c.hurtNode(s.Node, s.What)
	}
}

func (c *Cluster) hurtRedis(what string) {
	switch what {
	case FaultRedisHalt:
		c.redis.Pause()
	case FaultRedisKill:
		c.redis.Kill()
	case FaultRedisStop:
		c.redis.Stop()
	}
}

func (c *Cluster) healRedis() {
	if c.redis == nil {
		return
	}
	c.redis.Resume()
	if !c.redis.Running() {
		c.redis.Restart()
	}
}

func (c *Cluster) hurtNode(i int, what string) {
	node := c.nodes[i]
	if !node.Running() {
		return
	}
	c.ways.up[i].Store(false)
	var err error
	switch what {
	case FaultKill:
		node.Kill()
	case FaultPause:
		err = node.Pause()
	case FaultDrain:
		err = node.Drain()
	}
	if err != nil {
		c.t.Errorf("%s: %v", c.names[i], err)
	}
}

// healNode wakes a paused node and starts one that has ended or is about to.
func (c *Cluster) healNode(i int) {
	node := c.nodes[i]
	defer c.ways.up[i].Store(true)
	if node.Running() {
		if err := node.Resume(); err != nil {
			c.t.Errorf("%s: %v", c.names[i], err)
		}
	}
	if node.Running() && !node.Draining() {
		return
	}
	if err := node.Stop(); err != nil {
		c.t.Errorf("%s did not end cleanly: %v", c.names[i], err)
	}
	if err := node.Launch(); err != nil {
		c.t.Errorf("%s: %v", c.names[i], err)
	}
}

// Heal makes everything whole and waits until all nodes are ready.
func (c *Cluster) Heal() {
	c.t.Helper()
	c.note("everything healed")
	c.healRedis()
	for i := range c.nodes {
		c.healNode(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	for i, node := range c.nodes {
		if err := node.AwaitReady(ctx); err != nil {
			c.t.Errorf("%s does not get ready again: %v", c.names[i], err)
		}
	}
}

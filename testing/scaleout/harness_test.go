//go:build unix

package scaleout

import (
	"context"
	"flag"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

const (
	aliceToken = "secret-of-alice-0123456789"
	rootToken  = "secret-of-root-0123456789"

	// patience bounds every wait.
	patience = 90 * time.Second
	poll     = 50 * time.Millisecond

	// takeover is what a user waits at most for a dead node (design section 9), and
	// slack what a loaded machine may add.
	leaseTTL = 15 * time.Second
	takeover = leaseTTL + 2*time.Second
	slack    = 3 * time.Second
)

// TestMain lets tests wait side by side: they mostly wait for leases to end.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// setup says what a cluster is made of. The zero value is two nodes on one Redis.
type setup struct {
	nodes   int
	redis   []string // arguments of redis-server
	url     string   // of a Redis that is there already
	store   bool     // the gateway keeps responses
	maxRuns int      // turns that the gateway is given at a time
	behind  bool     // each node reaches Redis over a link of its own
	options []string // of the hermes block
	down    bool     // the nodes are not started
}

// cluster is nodes, their Redis and the gateway they front.
type cluster struct {
	t       *testing.T
	gateway *fakegateway.Server
	redis   *redisserver.Server // nil if setup.url is given
	nodes   []*node
}

// node is an edge of a cluster.
type node struct {
	*e2e.Edge
	t    *testing.T
	name string
	link *link // nil unless setup.behind
}

// windows closes a connection whose node is paused within seconds.
var windows = []string{"timeouts {", "ping_interval 3s", "ping_timeout 6s", "}"}

func start(t *testing.T, s setup) *cluster {
	t.Helper()
	c := &cluster{t: t, gateway: fakegateway.Start(t, fakegateway.Options{})}
	if s.url == "" {
		c.redis = redisserver.Start(t, append([]string{"--appendonly", "yes", "--appendfsync", "always"}, s.redis...)...)
		s.url = "redis://" + c.redis.Addr
	}
	for i := range max(s.nodes, 2) {
		c.add("n"+strconv.Itoa(i+1), s)
	}
	if s.down {
		return c
	}
	c.launch()
	return c
}

// launch starts all nodes at once and waits until they serve.
func (c *cluster) launch() {
	c.t.Helper()
	for _, n := range c.nodes {
		if err := n.Launch(); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, n := range c.nodes {
		n.ready()
	}
}

// add configures one more node.
func (c *cluster) add(name string, s setup) *node {
	c.t.Helper()
	n := &node{t: c.t, name: name}
	url := s.url
	if s.behind {
		n.link = newLink(c.t, c.redis.Addr)
		url = "redis://" + n.link.addr
	}
	gateway := c.gateway.URL
	options := append(slices.Clone(windows), "redis "+url, "node "+name)
	options = append(options, s.options...)
	config := e2e.Config{
		Gateways: map[string]e2e.Upstream{"default": {URL: gateway, Store: s.store, MaxRuns: s.maxRuns}},
		Users:    []e2e.User{{Name: "alice", Token: aliceToken}, {Name: "root", Token: rootToken, Admin: true}},
		Options:  options,
		Site:     []string{"metrics /metrics"},
	}
	edge, err := e2e.NewEdge(c.t.TempDir(), config)
	if err != nil {
		c.t.Fatal(err)
	}
	n.Edge = edge
	c.t.Cleanup(n.end)
	c.nodes = append(c.nodes, n)
	return n
}

// end stops a node at the end of its test, which fails if that is not clean.
func (n *node) end() {
	if n.Running() {
		_ = n.Resume() // it may be paused
		if err := n.Stop(); err != nil {
			n.t.Errorf("%s: %v", n.name, err)
		}
	}
	for _, fault := range n.Faults() {
		n.t.Errorf("%s: %s", n.name, fault)
	}
	if n.t.Failed() {
		log := n.Log()
		n.t.Logf("log of %s:\n%s", n.name, log[max(0, len(log)-maxLog):])
	}
}

const maxLog = 6000

func (n *node) ready() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.AwaitReady(ctx); err != nil {
		n.t.Fatalf("%s does not get ready: %v\n%s", n.name, err, n.Log())
	}
}

// restart starts a node again that has been killed.
func (n *node) restart() {
	n.t.Helper()
	if err := n.Launch(); err != nil {
		n.t.Fatal(err)
	}
	n.ready()
}

func (n *node) alice() *chat.Client {
	n.t.Helper()
	return chat.Dial(n.t, n.URL, aliceToken)
}

// reach is alice as soon as the node lets her in.
func (n *node) reach() *chat.Client {
	n.t.Helper()
	var client *chat.Client
	eventually(n.t, n.name+" lets alice in", func() bool {
		c, err := chat.TryOpen(n.t, chat.Options{URLs: []string{n.URL}, Token: aliceToken})
		client = c
		return err == nil
	})
	return client
}

// watch opens a window on a session.
func (n *node) watch(session string) *chat.Client {
	n.t.Helper()
	c := n.alice()
	c.Resume(session)
	return c
}

// pause stops the process; wake lets it go on.
func (n *node) pause() {
	n.t.Helper()
	if err := n.Pause(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) wake() {
	n.t.Helper()
	if err := n.Resume(); err != nil {
		n.t.Fatal(err)
	}
}

// ask makes a request as alice and returns status and body; 0 stands for none.
func (n *node) ask(method, path, body string) (int, string) {
	return n.askAs(aliceToken, method, path, body)
}

func (n *node) askAs(token, method, path, body string) (int, string) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, n.URL+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(answer)
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// eventually waits for something that only polling can see.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// pause lets time go by where the passing of time is the event.
func elapse(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal("the test ended")
	}
}

// held waits until n turns wait for a release in the gateway.
func (c *cluster) held(n int) {
	c.t.Helper()
	c.await("turns wait for a release", func(s fakegateway.State) bool { return s.Held == n })
}

func (c *cluster) await(what string, condition func(fakegateway.State) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.gateway.WaitFor(ctx, condition); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// calls counts upstream turns by the message they answer.
func (c *cluster) calls() map[string]int {
	calls := make(map[string]int)
	for _, turn := range c.gateway.Turns() {
		calls[inputOf(turn.Body)]++
	}
	return calls
}

// once checks that each of the messages was sent upstream exactly once.
func (c *cluster) once(messages ...string) {
	c.t.Helper()
	calls := c.calls()
	for _, m := range messages {
		if calls[m] != 1 {
			c.t.Errorf("%q was sent %d times", m, calls[m])
		}
	}
}

// within fails if what happened took longer than it may.
func within(t *testing.T, what string, since, at time.Time, limit time.Duration) {
	t.Helper()
	took := at.Sub(since)
	t.Logf("%s after %s", what, took.Round(10*time.Millisecond))
	if took > limit+slack {
		t.Errorf("%s after %s, want %s at most", what, took, limit)
	}
}

func isEnding(e chat.Event) bool { return e.Name == "run.completed" || e.Name == "run.failed" }

// ends reports the ending of a session's last run.
func ends(session string) func(chat.Event) bool {
	return func(e chat.Event) bool {
		return isEnding(e) && e.Text("session_id") == session && e.Number("queue_remaining") == 0
	}
}

// settle waits until a session is idle and returns its transcript.
func settle(t *testing.T, n *node, session string) []string {
	t.Helper()
	var rows []string
	c := n.alice()
	defer c.Close()
	eventually(t, session+" is idle", func() bool {
		resumed := c.Resume(session)
		rows = chat.Rows(resumed)
		return resumed.Payload["isWorking"] != true
	})
	return rows
}

// words is the text of the gateway's slow turn from one word to another.
func words(from, to int) string {
	var text strings.Builder
	for i := from; i <= to; i++ {
		text.WriteString("word" + strconv.Itoa(i) + " ")
	}
	return text.String()
}

// says waits until a client has seen a piece of text.
func says(c *chat.Client, text string) []chat.Event {
	var so strings.Builder
	return c.UntilThat("the text "+text, func(e chat.Event) bool {
		if e.Name == "message.delta" {
			so.WriteString(e.Text("delta"))
		}
		return strings.Contains(so.String(), text)
	})
}

// names lists events by name, deltas merged.
func names(events []chat.Event) []string {
	var all []string
	for _, e := range events {
		if e.Name == "message.delta" && len(all) > 0 && all[len(all)-1] == e.Name {
			continue
		}
		all = append(all, e.Name)
	}
	return all
}

func raws(events []chat.Event) []string {
	all := make([]string, 0, len(events))
	for _, e := range events {
		all = append(all, e.Name+" "+e.Raw)
	}
	return all
}

// same compares what two windows have seen.
func same(t *testing.T, what string, a, b []chat.Event) {
	t.Helper()
	x, y := raws(a), raws(b)
	for i := range max(len(x), len(y)) {
		var left, right string
		if i < len(x) {
			left = x[i]
		}
		if i < len(y) {
			right = y[i]
		}
		if left != right {
			t.Errorf("%s: event %d of %d and %d differs:\n%s\n%s", what, i, len(x), len(y), left, right)
			return
		}
	}
}

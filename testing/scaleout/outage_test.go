//go:build unix

package scaleout

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

const (
	redisAway  = 20 * time.Second
	refusal    = 2 * time.Second
	spareRoom  = 150 // goroutines that a node may have more than before
	streamText = "[[slow 3200 10ms]]"
)

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

func (n *node) goroutines() int {
	n.t.Helper()
	_, body := n.ask(http.MethodGet, "/metrics", "")
	found := goroutines.FindStringSubmatch(body)
	if found == nil {
		n.t.Fatalf("no go_goroutines in %.200q", body)
	}
	count, err := strconv.Atoi(found[1])
	if err != nil {
		n.t.Fatal(err)
	}
	return count
}

// RED-01: Redis is away for 20 seconds while answers stream and a message waits.
// Answers go on for the windows of their node; new messages are refused at once; a
// stop works; afterwards everything is caught up without a restart.
func TestRedisIsAway(t *testing.T) {
	for name, tc := range map[string]struct {
		setup setup
		empty bool
	}{
		"and keeps its data": {setup{}, false},
		"and loses its data": {setup{redis: []string{"--appendonly", "no"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, tc.setup)
			o := newOutage(t, c)
			c.redis.Kill()
			o.during()
			c.redis.Restart()
			o.after(tc.empty)
		})
	}
}

// outageCase is two chats on the first node: s1 streams, s2 is held with a message
// waiting.
type outageCase struct {
	t         *testing.T
	c         *cluster
	gone      time.Time
	near, far *follower // of s1, on its own node and on the other
	stopper   *chat.Client
	count     int
}

func newOutage(t *testing.T, c *cluster) *outageCase {
	t.Helper()
	o := &outageCase{t: t, c: c, near: c.follow("s1", c.nodes[0]), far: c.follow("s1", c.nodes[1])}
	c.nodes[0].alice().Run("s1", "q1", streamText)
	o.stopper = c.nodes[0].alice()
	o.stopper.Run("s2", "q1", "[[hold]]")
	says(o.stopper, "held")
	o.stopper.Run("s2", "q2", "waiting")
	o.stopper.UntilThat("a waiting message", queueIs(1))
	for _, f := range []*follower{o.near, o.far} {
		f.until("some text", func() bool { return len(f.text) > len(words(1, 30)) })
	}
	o.count = c.nodes[0].goroutines()
	o.gone = time.Now()
	return o
}

// during is what users see while Redis is away.
func (o *outageCase) during() {
	t, c := o.t, o.c
	t.Helper()
	for _, n := range c.nodes {
		eventually(t, n.name+" says that it is not ready", func() bool {
			status, _ := n.ask(http.MethodGet, "/chat-run/health", "")
			return status == http.StatusServiceUnavailable
		})
	}
	sent := time.Now()
	o.stopper.Run("s3", "q1", "refused")
	seen := o.stopper.UntilThat("a refusal", func(e chat.Event) bool { return isEnding(e) && e.Text("session_id") == "s3" })
	last := seen[len(seen)-1]
	within(t, "refused", sent, last.At, refusal)
	if last.Name != "run.failed" || last.Text("error") == "" {
		t.Errorf("a new message got %s %s", last.Name, last.Raw)
	}
	t.Logf("refused with %q", last.Text("error"))

	o.stopper.Abort("s2")
	c.await("the stop reaches the gateway", func(s fakegateway.State) bool { return s.Active == 1 })

	shown := len(o.near.text)
	o.near.until("more text", func() bool { return len(o.near.text) > shown+len(words(1, 100)) })
	if o.near.lost > 0 || !strings.HasPrefix(words(1, 3200), o.near.text) {
		t.Errorf("%d connections lost, text …%q", o.near.lost, tail(o.near.text))
	}
	elapse(t, time.Until(o.gone.Add(redisAway)))
	if n := c.nodes[0].goroutines(); n > o.count+spareRoom {
		t.Errorf("%d goroutines before, %d while Redis is away", o.count, n)
	}
}

// after is what they find when it is back.
func (o *outageCase) after(empty bool) {
	t, c := o.t, o.c
	t.Helper()
	for _, n := range c.nodes {
		n.ready()
	}
	for _, f := range []*follower{o.near, o.far} {
		f.until("the ending", func() bool { return !f.working && strings.HasSuffix(f.text, "word3200 ") })
		f.check(words(1, 3200))
		t.Logf("%d snapshots, %d connections lost", f.snapshots, f.lost)
	}
	if rows := settle(t, c.nodes[1], "s1"); !slices.Equal(rows, []string{"user: " + streamText, "assistant: " + words(1, 3200)}) {
		t.Errorf("transcript of s1: %.300q", rows)
	}
	want := []string{"user: [[hold]]", "assistant: held ", "user: waiting", "assistant: echo: waiting"}
	if empty {
		want = want[:2] // the waiting message stood in Redis only (contract 9.5)
	}
	if rows := settle(t, c.nodes[1], "s2"); !slices.Equal(rows, want) {
		t.Errorf("transcript of s2: %q", rows)
	}
	calls := c.calls()
	if calls[streamText] != 1 || calls["[[hold]]"] != 1 || calls["refused"] != 0 {
		t.Errorf("upstream: %v", calls)
	}
	w := c.nodes[1].watch("s3")
	w.Run("s3", "q1", "refused")
	if text := chat.TextOf(w.UntilThat("an answer", ends("s3"))); text != "echo: refused" {
		t.Errorf("sent again after the outage: %q", text)
	}
	eventually(t, "the goroutines of the outage are gone", func() bool { return c.nodes[0].goroutines() < o.count+spareRoom })
}

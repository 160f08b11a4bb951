//go:build unix

package scaleout

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// stall is how long Redis hangs.
const stall = 6 * time.Second

// H4, H5: Redis hangs and executes afterwards what it was sent. A message that its
// user was told is not going to run does not run, unless it is sent again; the answer
// that streamed meanwhile is whole on both nodes.
func TestRedisHangs(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	near, far := c.follow("s1", c.nodes[0]), c.follow("s1", c.nodes[1])
	c.nodes[0].alice().Run("s1", "q1", "[[slow 1200 10ms]]")
	for _, f := range []*follower{near, far} {
		f.until("some text", func() bool { return len(f.text) > len(words(1, 30)) })
	}
	senders := []*chat.Client{c.nodes[0].alice(), c.nodes[1].alice()}
	c.redis.Pause()
	since := time.Now()
	sent := time.Now()
	for i, w := range senders {
		session := "lost" + strconv.Itoa(i)
		w.Run(session, "q-"+session, "not run "+strconv.Itoa(i))
	}
	for i, w := range senders {
		seen := w.UntilThat("a refusal", isEnding)
		last := seen[len(seen)-1]
		if last.Name != "run.failed" {
			t.Errorf("got %s %s", last.Name, last.Raw)
		}
		within(t, "refused by node "+strconv.Itoa(i+1), sent, last.At, refusal)
	}
	elapse(t, time.Until(since.Add(stall)))
	c.redis.Resume()
	for _, f := range []*follower{near, far} {
		f.until("the ending", func() bool { return !f.working && f.text != "" })
		f.check(words(1, 1200))
	}
	for i := range senders {
		session := "lost" + strconv.Itoa(i)
		if rows := settle(t, c.nodes[i], session); len(rows) > 0 {
			t.Errorf("%s: %q", session, rows)
		}
	}
	if calls := c.calls(); calls["not run 0"]+calls["not run 1"] != 0 {
		t.Errorf("sent upstream: %v", calls)
	}
	// The users send them again, with the same ids, through the other node.
	for i := range senders {
		session := "lost" + strconv.Itoa(i)
		w := c.nodes[1-i].reach()
		w.Run(session, "q-"+session, "not run "+strconv.Itoa(i))
		if last := w.UntilThat("an answer", ends(session)); last[len(last)-1].Name != "run.completed" {
			t.Errorf("sent again:\n%s", chat.List(last))
		}
		if rows := settle(t, c.nodes[i], session); !slices.Equal(rows, []string{
			"user: not run " + strconv.Itoa(i), "assistant: echo: not run " + strconv.Itoa(i),
		}) {
			t.Errorf("transcript of %s: %q", session, rows)
		}
	}
	c.once("[[slow 1200 10ms]]", "not run 0", "not run 1")
}

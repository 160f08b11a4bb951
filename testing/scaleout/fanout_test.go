//go:build unix

package scaleout

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// RED-07: whoever owns a run, windows on both nodes see the same bytes in the same
// order, each event once; also after Redis has dropped all connections.
func TestEveryNodeShowsTheSame(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	senders := []*chat.Client{c.nodes[0].watch("s1"), c.nodes[1].watch("s1")}
	watchers := []*chat.Client{c.nodes[0].watch("s1"), c.nodes[1].watch("s1")}
	const text = "[[slow 40 10ms]]"
	run := 0
	round := func(sender, other *chat.Client) {
		t.Helper()
		run++
		sender.Run("s1", "q"+strconv.Itoa(run), text)
		var seen [2][]chat.Event
		for i, w := range watchers {
			seen[i] = w.UntilThat("the end", ends("s1"))
			if got := chat.TextOf(seen[i]); got != words(1, 40) {
				t.Errorf("run %d, window on %s: %q", run, c.nodes[i].name, got)
			}
			for name, want := range map[string]int{"run.started": 1, "run.completed": 1, "run.peer_user_message": 1} {
				if n := len(chat.Named(seen[i], name)); n != want {
					t.Errorf("run %d, window on %s: %d times %s", run, c.nodes[i].name, n, name)
				}
			}
		}
		same(t, "run "+strconv.Itoa(run), seen[0], seen[1])
		sent := sender.UntilThat("the end", ends("s1"))
		if n := len(chat.Named(sent, "run.peer_user_message")); n != 0 {
			t.Errorf("run %d: the sender got its own message %d times", run, n)
		}
		other.UntilThat("the end", ends("s1"))
	}
	round(senders[0], senders[1])
	round(senders[1], senders[0])
	for _, kind := range []string{"pubsub", "normal"} {
		if answer := c.redis.Do("CLIENT", "KILL", "TYPE", kind); strings.HasPrefix(answer, "ERR") {
			t.Fatal(answer)
		}
		round(senders[0], senders[1])
		round(senders[1], senders[0])
	}
	for i, w := range append(watchers, senders...) {
		if rest := w.Rest(); len(rest) > 0 {
			t.Errorf("window %d got more:\n%s", i, chat.List(rest))
		}
	}
	if n := len(c.gateway.Turns()); n != run {
		t.Errorf("%d turns for %d messages", n, run)
	}
}

// A burst is the same text on both nodes, and what is merged on the way is merged
// once for all.
func TestABurstIsTheSameOnBothNodes(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	near, far := c.nodes[0].watch("s1"), c.nodes[1].watch("s1")
	c.nodes[0].watch("s1").Run("s1", "q1", "[[load 3000 0]]")
	a, b := near.UntilThat("the end", ends("s1")), far.UntilThat("the end", ends("s1"))
	same(t, "burst", a, b)
	if len(chat.TextOf(a)) < 3000*30 {
		t.Errorf("only %d bytes of text", len(chat.TextOf(a)))
	}
}

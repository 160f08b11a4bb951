//go:build unix

package scaleout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// drain is how long answers may go on after SIGTERM, by default.
const drain = 4 * time.Second

// Contract 5.7: a node that is told to end gives its answers a moment, ends what is
// left with its text kept, and leaves the waiting messages to the other node, which
// takes them without waiting for any lease.
func TestGracefulShutdownHandsTheQueueOver(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own, far := busy(t, c)
	since := time.Now()
	if err := c.nodes[0].Drain(); err != nil {
		t.Fatal(err)
	}
	first := far.UntilThat("the end of the held run", isEnding)
	if last := first[len(first)-1]; last.Name != "run.failed" || last.Number("queue_remaining") != 2 {
		t.Errorf("ended with %s %s", last.Name, last.Raw)
	}
	next := far.UntilThat("the waiting message starts", isNamed("run.started"))
	within(t, "the queue goes on", since, next[len(next)-1].At, drain+2*time.Second)
	far.UntilThat("the end of the queue", ends("s1"))
	own.Closed()
	if err := c.nodes[0].Stop(); err != nil {
		t.Errorf("the end of the node: %v", err)
	}
	rows := settle(t, c.nodes[1], "s1")
	if want := []string{
		"user: [[hold]] first", "assistant: held ", "user: second", "assistant: echo: second", "user: third", "assistant: echo: third",
	}; !slices.Equal(rows, want) {
		t.Errorf("transcript %q", rows)
	}
	c.once("[[hold]] first", "second", "third")
}

// Connection state recovery (contract 6): a window whose node ends, in order or not,
// continues on the other one and gets exactly what it has not seen.
func TestAWindowContinuesOnTheOtherNode(t *testing.T) {
	for how, end := range map[string]func(*testing.T, *node){
		"killed": func(_ *testing.T, n *node) { n.Kill() },
		"terminated": func(t *testing.T, n *node) {
			if err := n.Drain(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{})
			owner, lost := c.nodes[1], c.nodes[0]
			w := lost.watch("s1")
			owner.watch("s1").Run("s1", "q1", "[[slow 600 10ms]]")
			before := says(w, "word50 ")
			end(t, lost)
			w.Closed()
			before = append(before, w.Rest()...)
			again := chat.Open(t, chat.Options{URLs: []string{owner.URL}, Token: aliceToken, Before: w.Identity()})
			if !again.Recovered() {
				t.Error("the connection was not recovered")
				return
			}
			after := again.UntilThat("the ending", isEnding)
			if got := chat.TextOf(before) + chat.TextOf(after); got != words(1, 600) {
				t.Errorf("%d bytes before, %d after, …%q", len(chat.TextOf(before)), len(chat.TextOf(after)), tail(got))
			}
			if n := len(chat.Named(after, "resumed")); n != 0 {
				t.Errorf("%d snapshots although nothing was lost", n)
			}
			if !strings.HasSuffix(chat.TextOf(after), "word600 ") {
				t.Errorf("the end: …%q", tail(chat.TextOf(after)))
			}
		})
	}
}

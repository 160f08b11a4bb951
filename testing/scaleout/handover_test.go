//go:build unix

package scaleout

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// handover is how long work may lie between a node that ends and the next one.
const handover = 3 * time.Second

// Contract 5.7.2: with store on an answer outlives the orderly end of its node; the
// other node completes it without waiting for a lease.
func TestGracefulShutdownHandsTheAnswerOver(t *testing.T) {
	t.Parallel()
	c := start(t, setup{store: true})
	finish := make(chan struct{})
	release := sync.OnceFunc(func() { close(finish) })
	t.Cleanup(release)
	c.gateway.SetScript(func(turn *fakegateway.Turn) {
		turn.Created()
		turn.Delta("first half, ")
		<-finish
		turn.Delta("second half")
		turn.Complete(fakegateway.Usage{Input: 1, Output: 2})
	})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "question")
	says(own, "first half, ")
	far := c.nodes[1].alice()
	resumed := far.Resume("s1")
	if err := c.nodes[0].Stop(); err != nil {
		t.Errorf("the end of the node: %v", err)
	}
	release()
	seen := far.UntilThat("the ending", isEnding)
	if last := seen[len(seen)-1]; last.Name != "run.completed" {
		t.Errorf("ended with:\n%s", chat.List(seen))
	}
	if text := lastText(resumed) + chat.TextOf(seen); text != "first half, second half" {
		t.Errorf("shown %q", text)
	}
	if rows := settle(t, c.nodes[1], "s1"); !slices.Equal(rows, []string{"user: question", "assistant: first half, second half"}) {
		t.Errorf("transcript %q", rows)
	}
	c.once("question")
}

// A message that the gateway has only refused so far goes to the other node at once
// when its node ends.
func TestGracefulShutdownHandsOverWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	c.gateway.SetScript(func(turn *fakegateway.Turn) {
		turn.Writer.Header().Set("Retry-After", "30")
		turn.Error(http.StatusTooManyRequests, "too many runs")
	})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "patience")
	own.UntilThat("the notice that the gateway is busy", isNamed("agent.event"))
	far := c.nodes[1].watch("s1")
	c.gateway.SetScript(nil)
	since := time.Now()
	if err := c.nodes[0].Drain(); err != nil {
		t.Fatal(err)
	}
	seen := far.UntilThat("the ending", isEnding)
	last := seen[len(seen)-1]
	if last.Name != "run.completed" || chat.TextOf(seen) != "echo: patience" {
		t.Errorf("got:\n%s", chat.List(seen))
	}
	within(t, "answered", since, last.At, drain+handover)
}

// RES-03: everything but Redis is killed and started again. The answer that was under
// way ends with its text, what waited is answered, no chat is busy for ever.
func TestEverythingButRedisRestarts(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	busy(t, c)
	for _, n := range c.nodes {
		n.Kill()
	}
	c.launch()
	w := c.nodes[1].alice()
	if resumed := w.Resume("s1"); resumed.Payload["isWorking"] == true {
		w.UntilThat("the end of the queue", ends("s1"))
	}
	if rows := settle(t, c.nodes[0], "s1"); !slices.Equal(rows, []string{
		"user: [[hold]] first", "assistant: held ", "user: second", "assistant: echo: second", "user: third", "assistant: echo: third",
	}) {
		t.Errorf("transcript %q", rows)
	}
	c.once("[[hold]] first", "second", "third")
}

// The limit of a gateway counts over all nodes; who waits is told, and comes next,
// also if the node that held the place is killed.
func TestOneGatewayLimitOverTwoNodes(t *testing.T) {
	t.Parallel()
	c := start(t, setup{maxRuns: 1})
	first := c.nodes[0].alice()
	first.Run("s1", "q1", "[[hold]]")
	c.held(1)
	second := c.nodes[1].alice()
	second.Run("s2", "q2", "two")
	second.UntilThat("the notice of the wait", isNamed("agent.event"))
	third := c.nodes[0].alice()
	third.Run("s3", "q3", "three")
	third.UntilThat("the notice of the wait", isNamed("agent.event"))
	if n := len(c.gateway.Turns()); n != 1 {
		t.Errorf("%d turns at a time", n)
	}
	c.gateway.Release()
	for session, w := range map[string]*chat.Client{"s1": first, "s2": second, "s3": third} {
		w.UntilThat("the end of "+session, ends(session))
	}
	var order []string
	for _, turn := range c.gateway.Turns() {
		order = append(order, inputOf(turn.Body))
	}
	if !slices.Equal(order, []string{"[[hold]]", "two", "three"}) {
		t.Errorf("order %q", order)
	}
	// A dead node gives its place back.
	first.Run("s1", "q4", "[[hold]] four")
	c.held(1)
	second.Run("s2", "q5", "five")
	second.UntilThat("the notice of the wait", isNamed("agent.event"))
	c.nodes[0].Kill()
	if seen := second.UntilThat("the end", ends("s2")); !strings.HasSuffix(chat.TextOf(seen), "echo: five") {
		t.Errorf("got:\n%s", chat.List(seen))
	}
}

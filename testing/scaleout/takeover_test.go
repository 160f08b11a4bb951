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

// RES-03, QUE-05: the owner is killed while it streams, with three messages waiting.
// A window on the other node sees the run end as failed with its text kept, in time,
// and the queue run in order.
func TestTakeover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "[[slow 5000 10ms]]")
	says(own, "word20 ")
	for _, q := range []string{"q2", "q3", "q4"} {
		own.Run("s1", q, "message "+q)
	}
	own.UntilThat("three waiting messages", queueIs(3))
	far := c.nodes[1].alice()
	resumed := far.Resume("s1")
	if resumed.Number("queueLength") != 3 {
		t.Fatalf("on the other node: %s", resumed.Raw)
	}
	before := says(far, "word")
	c.nodes[0].Kill()
	since := time.Now()

	seen := append(before, far.UntilThat("the ending", isEnding)...)
	failed := seen[len(seen)-1]
	if failed.Name != "run.failed" || failed.Number("queue_remaining") != 3 {
		t.Fatalf("the lost run ended with %s %s", failed.Name, failed.Raw)
	}
	within(t, "taken over", since, failed.At, takeover)
	rest := far.UntilThat("the end of the queue", ends("s1"))
	var order []string
	for _, e := range chat.Named(rest, "run.queued") {
		order = append(order, e.Text("dequeued_queue_id"))
	}
	if !slices.Equal(order, []string{"q2", "q3", "q4"}) {
		t.Errorf("taken from the queue: %q", order)
	}
	rows := settle(t, c.nodes[1], "s1")
	if len(rows) != 8 || !slices.Equal(rows[2:], []string{
		"user: message q2", "assistant: echo: message q2", "user: message q3", "assistant: echo: message q3",
		"user: message q4", "assistant: echo: message q4",
	}) {
		t.Fatalf("transcript %q", rows)
	}
	// What the window has seen is in the transcript.
	partial := strings.TrimPrefix(rows[1], "assistant: ")
	shown := lastText(resumed) + chat.TextOf(seen)
	if !strings.HasPrefix(partial, "word1 word2 ") || partial != shown {
		t.Errorf("kept %d bytes, shown %d: …%q, …%q", len(partial), len(shown), tail(partial), tail(shown))
	}
	c.once("[[slow 5000 10ms]]", "message q2", "message q3", "message q4")
	// The dead node comes back and shows the same.
	c.nodes[0].restart()
	if again := settle(t, c.nodes[0], "s1"); !slices.Equal(again, rows) {
		t.Errorf("on the node that came back: %q", again)
	}
}

// A message that was never sent is run by the taker: the gateway refused it until
// the owner died.
func TestTheTakerRunsWhatWasNeverSent(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	c.gateway.SetScript(func(turn *fakegateway.Turn) {
		turn.Writer.Header().Set("Retry-After", "30")
		turn.Error(http.StatusTooManyRequests, "too many runs")
	})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "patience")
	own.UntilThat("the notice that the gateway is busy", isNamed("agent.event"))
	far := c.nodes[1].alice()
	far.Resume("s1")
	c.nodes[0].Kill()
	since := time.Now()
	c.gateway.SetScript(nil)
	seen := far.UntilThat("the ending", isEnding)
	if last := seen[len(seen)-1]; last.Name != "run.completed" || chat.TextOf(seen) != "echo: patience" {
		t.Errorf("got:\n%s", chat.List(seen))
	} else {
		within(t, "answered", since, last.At, takeover)
	}
	if rows := settle(t, c.nodes[1], "s1"); !slices.Equal(rows, []string{"user: patience", "assistant: echo: patience"}) {
		t.Errorf("transcript %q", rows)
	}
}

// RES-07, T31: with store on the taker gets the whole answer from the gateway, which
// has gone on without the owner, and deletes it there.
func TestTheTakerRecoversAStoredResponse(t *testing.T) {
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
	c.nodes[0].Kill()
	asked := func(method string) int {
		n := 0
		for _, r := range c.gateway.Requests() {
			if r.Method == method && strings.HasPrefix(r.Path, "/v1/responses/") {
				n++
			}
		}
		return n
	}
	eventually(t, "the taker asks for the response", func() bool { return asked(http.MethodGet) > 1 })
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
	eventually(t, "the response is deleted", func() bool { return asked(http.MethodDelete) == 1 })
}

// Each window that follows a chat may lose its node; an accepted message has one
// ending for whoever asks, and sent again it does not run again (QUE-04, RES-03).
func TestTheOrphanIsReportedByTheOtherNode(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "[[hold]]")
	says(own, "held")
	c.held(1)
	c.nodes[0].Kill()
	own.Closed()
	again := c.nodes[1].alice()
	again.Run("s1", "q1", "[[hold]]")
	seen := again.UntilThat("the ending", isEnding)
	if last := seen[len(seen)-1]; last.Name != "run.failed" || last.Text("error") == "" {
		t.Errorf("sent again:\n%s", chat.List(seen))
	}
	if rows := settle(t, c.nodes[1], "s1"); len(rows) != 2 || rows[0] != "user: [[hold]]" || rows[1] != "assistant: held " {
		t.Errorf("transcript %q", rows)
	}
	c.once("[[hold]]")
}

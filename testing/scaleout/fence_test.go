//go:build unix

package scaleout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// RED-04, H9, H16: the owner sleeps for longer than its lease while its run streams
// and a message waits. The other node goes on; what the owner still has to say when
// it wakes is heard by nobody.
func TestAnOwnerThatSleepsTooLong(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own := c.nodes[0].alice()
	own.Run("s1", "q1", "[[slow 6000 10ms]]")
	says(own, "word20 ")
	own.Run("s1", "q2", "second")
	own.UntilThat("a waiting message", queueIs(1))
	far := c.nodes[1].alice()
	resumed := far.Resume("s1")
	c.nodes[0].pause()
	asleep := time.Now()
	first := far.UntilThat("the end of the first run", isEnding)
	within(t, "taken over", asleep, first[len(first)-1].At, takeover)
	second := far.UntilThat("the end of the second", ends("s1"))
	if name := second[len(second)-1].Name; name != "run.completed" {
		t.Errorf("the waiting message ended with %s", name)
	}
	if log := c.nodes[1].Log(); !strings.Contains(log, `"taken over"`) {
		t.Error("the log does not tell of the takeover")
	}
	elapse(t, time.Until(asleep.Add(leaseTTL+5*time.Second)))
	c.nodes[0].wake()
	c.nodes[0].ready()

	// A message through the node that slept: nothing of the first run comes before it
	// or with it, for either window.
	near := c.nodes[0].watch("s1")
	near.Run("s1", "q3", "third")
	for who, w := range map[string]*chat.Client{"near": near, "far": far} {
		seen := w.UntilThat("the end of the third", ends("s1"))
		if text := chat.TextOf(seen); text != "echo: third" {
			t.Errorf("%s: the third answer is %q", who, text)
		}
	}
	kept := lastText(resumed) + chat.TextOf(first)
	rows := settle(t, c.nodes[0], "s1")
	if want := []string{
		"user: [[slow 6000 10ms]]", "assistant: " + kept, "user: second", "assistant: echo: second", "user: third", "assistant: echo: third",
	}; !slices.Equal(rows, want) {
		t.Errorf("transcript %.300q, kept …%q", rows, tail(kept))
	}
	if !strings.HasPrefix(kept, words(1, 20)) {
		t.Errorf("kept %.100q", kept)
	}
	c.once("[[slow 6000 10ms]]", "second", "third")
	eventually(t, "the stream of the first run is closed by the node that slept", func() bool {
		for _, turn := range c.gateway.Turns() {
			if strings.Contains(turn.Body, "[[slow 6000 10ms]]") && !strings.Contains(turn.Body, "second") {
				return turn.ClientGone
			}
		}
		return false
	})
}

//go:build unix

package scaleout

import (
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

func cancel(c *chat.Client, session, queueID string) {
	c.Emit("cancel_queued_run", map[string]any{"session_id": session, "queue_id": queueID})
}

func queueIs(n int) func(chat.Event) bool {
	return func(e chat.Event) bool { return e.Name == "run.queued" && e.Number("queue_length") == n }
}

func isNamed(name string) func(chat.Event) bool {
	return func(e chat.Event) bool { return e.Name == name }
}

// busy starts a run on the first node that the gateway holds, with two messages
// behind it, and returns the window that sent them and one on the other node.
func busy(t *testing.T, c *cluster) (own, far *chat.Client) {
	t.Helper()
	own = c.nodes[0].alice()
	own.Run("s1", "q1", "[[hold]] first")
	says(own, "held")
	c.held(1)
	own.Run("s1", "q2", "second")
	own.Run("s1", "q3", "third")
	own.UntilThat("two waiting messages", queueIs(2))
	far = c.nodes[1].alice()
	resumed := far.Resume("s1")
	if resumed.Payload["isWorking"] != true || resumed.Number("queueLength") != 2 {
		t.Fatalf("on the other node: %s", resumed.Raw)
	}
	return own, far
}

// lastText is the answer so far in a resumed event of a working session.
func lastText(resumed chat.Event) string {
	rows := chat.Rows(resumed)
	if len(rows) == 0 {
		return ""
	}
	text, _ := strings.CutPrefix(rows[len(rows)-1], "assistant: ")
	return text
}

func tail(s string) string { return s[max(0, len(s)-60):] }

// Package realagent runs whole conversations through the edge binary with a real
// hermes-agent behind it, whose model is scripted.
package realagent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/hermesagent"
)

const token = "secret-of-alice-0123456789"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is one release of the agent with an edge in front of it.
type rig struct {
	agent *hermesagent.Gateway
	edge  *e2e.Edge
}

func TestConversations(t *testing.T) {
	parts := []struct {
		name string
		run  func(*testing.T, *rig)
	}{
		{"plain text", plainText},
		{"a tool call (CR-31, CR-32, CR-35, CR-43)", toolCall},
		{"a failing tool", failingTool},
		{"two turns with memory (CR-41, CR-90)", memory},
		{"a provider error (CR-38, CR-40)", providerError},
		{"a stopped run (CR-66, CR-69, ABT-04)", stopped},
		{"a message that waits (CR-45, CR-48)", queued},
	}
	for _, version := range hermesagent.Versions() {
		t.Run(version, func(t *testing.T) {
			agent := hermesagent.Start(t, hermesagent.Config{Version: version, Pace: 200 * time.Millisecond})
			edge := e2e.StartEdge(t, e2e.Config{
				Gateways: map[string]e2e.Upstream{"default": {URL: agent.BaseURL, Key: hermesagent.Key}},
				Users:    []e2e.User{{Name: "alice", Token: token}},
			})
			r := &rig{agent: agent, edge: edge}
			for _, part := range parts {
				t.Run(part.name, func(t *testing.T) { part.run(t, r) })
			}
		})
	}
}

// turn sends a message and returns the events up to the end of its run.
func turn(t *testing.T, c *chat.Client, session, input string) []chat.Event {
	t.Helper()
	c.Run(session, "", input)
	return c.Until("run.completed", "run.failed")
}

// completed is turn for a run that must succeed; it returns the streamed text too.
func completed(t *testing.T, c *chat.Client, session, input string) ([]chat.Event, string) {
	t.Helper()
	events := turn(t, c, session, input)
	if last := events[len(events)-1]; last.Name != "run.completed" {
		t.Fatalf("%s ended with\n%s", input, chat.List(events))
	}
	return events, chat.TextOf(events)
}

// closing checks that a session is idle and holds these rows.
func closing(t *testing.T, c *chat.Client, session string, rows ...string) {
	t.Helper()
	resumed := c.Resume(session)
	if resumed.Payload["isWorking"] != false {
		t.Errorf("still working: %v", resumed.Payload)
	}
	if got := chat.Rows(resumed); !slices.Equal(got, rows) {
		t.Errorf("transcript\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(rows, "\n"))
	}
}

func plainText(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	events, text := completed(t, c, "plain", "hello 🌍")
	if text != "You said: hello 🌍" {
		t.Errorf("got %q", text)
	}
	if len(chat.Named(events, "run.started")) != 1 {
		t.Errorf("CR-25:\n%s", chat.List(events))
	}
	usage := events[len(events)-2]
	if usage.Name != "usage.updated" || usage.Number("inputTokens") <= 0 || usage.Number("outputTokens") <= 0 {
		t.Errorf("CR-42: before the end came %v", usage)
	}
	closing(t, c, "plain", "user: hello 🌍", "assistant: You said: hello 🌍")
}

func toolCall(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	events, text := completed(t, c, "tool", "[[tool echo from-the-terminal]]")
	if !strings.HasPrefix(text, "Let me look.") || !strings.Contains(text, "from-the-terminal") {
		t.Errorf("got %q", text)
	}
	started, ended := chat.Named(events, "tool.started"), chat.Named(events, "tool.completed")
	if len(started) != 1 || len(ended) != 1 {
		t.Fatalf("tool events:\n%s", chat.List(events))
	}
	if started[0].Text("tool") != "terminal" || started[0].Text("preview") != "echo from-the-terminal" {
		t.Errorf("started %v", started[0].Payload)
	}
	if id := started[0].Text("tool_call_id"); id == "" || id != ended[0].Text("tool_call_id") {
		t.Errorf("ids %q and %q", id, ended[0].Text("tool_call_id"))
	}
	if !strings.Contains(ended[0].Text("output"), "from-the-terminal") || ended[0].Payload["error"] != nil {
		t.Errorf("completed %v", ended[0].Payload)
	}
	var order []string
	for _, event := range events {
		switch event.Name {
		case "message.delta", "tool.started", "tool.completed":
			if len(order) == 0 || order[len(order)-1] != event.Name {
				order = append(order, event.Name)
			}
		}
	}
	if want := []string{"message.delta", "tool.started", "tool.completed", "message.delta"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	var roles []string
	for _, row := range chat.Rows(c.Resume("tool")) {
		role, _, _ := strings.Cut(row, ":")
		roles = append(roles, role)
	}
	if want := []string{"user", "assistant", "assistant", "tool", "assistant"}; !slices.Equal(roles, want) {
		t.Errorf("rows %v", roles)
	}
}

func failingTool(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	events, _ := completed(t, c, "fail", "[[fail]]")
	ended := chat.Named(events, "tool.completed")
	if len(ended) != 1 || !strings.Contains(ended[0].Text("output"), "3") {
		t.Errorf("tool events:\n%s", chat.List(events))
	}
}

func memory(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	completed(t, c, "memory", "My name is Ann")
	if _, text := completed(t, c, "memory", "[[remember]]"); text != "I remember: My name is Ann" {
		t.Errorf("the same window: %q", text)
	}
	other := chat.Dial(t, r.edge.URL, token)
	if rows := chat.Rows(other.Resume("memory")); len(rows) != 4 {
		t.Errorf("rows %v", rows)
	}
	if _, text := completed(t, other, "nobody", "[[remember]]"); strings.Contains(text, "Ann") {
		t.Errorf("another chat remembers: %q", text)
	}
}

func providerError(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	events := turn(t, c, "error", "[[error 400]]")
	last := events[len(events)-1]
	if last.Name != "run.failed" {
		t.Fatalf("a provider error that ends well:\n%s", chat.List(events))
	}
	text := last.Text("error")
	if text == "" || strings.Contains(text, "\n") || strings.Contains(text, hermesagent.Key) || strings.Contains(text, "sk-local-test") {
		t.Errorf("error %q", text)
	}
	t.Logf("error text: %s", text)
	if _, text := completed(t, c, "error", "go on"); text != "You said: go on" && !strings.HasSuffix(text, "go on") {
		t.Errorf("after the error: %q", text)
	}
}

func stopped(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	c.Run("stop", "q1", "[[slow 100]]")
	c.Until("message.delta")
	c.Abort("stop")
	events := c.Until("abort.completed", "run.completed", "run.failed")
	if last := events[len(events)-1]; last.Name != "abort.completed" || len(chat.Named(events, "abort.started")) != 1 {
		t.Fatalf("the stop:\n%s", chat.List(events))
	}
	rows := chat.Rows(c.Resume("stop"))
	if len(rows) != 2 || rows[0] != "user: [[slow 100]]" || len(rows[1]) < len("assistant: word") {
		t.Errorf("the partial answer is not kept: %v", rows)
	}
	if _, text := completed(t, c, "stop", "next"); !strings.HasSuffix(text, "next") || strings.Contains(text, "word") {
		t.Errorf("after the stop: %q", text)
	}
}

func queued(t *testing.T, r *rig) {
	c := chat.Dial(t, r.edge.URL, token)
	c.Run("queue", "q1", "[[slow 10]]")
	c.Until("message.delta")
	c.Run("queue", "q2", "second")
	if waiting := c.Until("run.queued"); waiting[len(waiting)-1].Number("queue_length") != 1 {
		t.Errorf("waiting %v", waiting)
	}
	events := c.UntilThat("the end of both", func(e chat.Event) bool {
		return (e.Name == "run.completed" || e.Name == "run.failed") && e.Number("queue_remaining") == 0
	})
	if text := chat.TextOf(events); !strings.HasSuffix(text, "You said: second") {
		t.Errorf("got %q", text)
	}
	for _, event := range chat.Named(events, "run.failed") {
		t.Errorf("failed: %v", event.Payload)
	}
}

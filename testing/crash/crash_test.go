// Package crash kills the edge binary in the middle of its work and starts it
// again on the same data.
package crash

import (
	"context"
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
)

const (
	token    = "secret-of-alice-0123456789"
	patience = time.Minute
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*fakegateway.Server, *e2e.Edge) {
	gateway := fakegateway.Start(t, fakegateway.Options{})
	edge := e2e.StartEdge(t, e2e.Config{
		Gateways: map[string]e2e.Upstream{"default": {URL: gateway.URL}},
		Users:    []e2e.User{{Name: "alice", Token: token}},
	})
	return gateway, edge
}

// restart kills the edge and starts it again; the client's connection is gone.
func restart(t *testing.T, edge *e2e.Edge, client *chat.Client) {
	t.Helper()
	edge.Kill()
	client.Closed()
	edge.MustStart(t)
}

func await(t *testing.T, gateway *fakegateway.Server, what string, condition func(fakegateway.State) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := gateway.WaitFor(ctx, condition); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// lastOf waits for the last event of a session: nothing waits behind it.
func lastOf(c *chat.Client) []chat.Event {
	return c.UntilThat("the end of the last run", func(e chat.Event) bool {
		return (e.Name == "run.completed" || e.Name == "run.failed") && e.Number("queue_remaining") == 0
	})
}

// The run that was sent is lost with its process; what had arrived stays, and the
// queue goes on (RES-03, QUE-05).
func TestKilledInMidRun(t *testing.T) {
	gateway, edge := start(t)
	first := chat.Dial(t, edge.URL, token)
	// The text of the first two seconds is behind a checkpoint, which is due every second.
	first.Run("s1", "q1", "[[slow 2000 10ms]]")
	first.UntilThat("the text of two seconds", func(e chat.Event) bool { return strings.Contains(e.Text("delta"), "word200 ") })
	first.Run("s1", "q2", "[[hold]] second")
	first.Run("s1", "q3", "third")
	first.UntilThat("two waiting messages", func(e chat.Event) bool { return e.Name == "run.queued" && e.Number("queue_length") == 2 })
	restart(t, edge, first)

	await(t, gateway, "the waiting message is sent", func(s fakegateway.State) bool { return s.Held == 1 })
	second := chat.Dial(t, edge.URL, token)
	resumed := second.Resume("s1")
	rows := chat.Rows(resumed)
	if len(rows) < 3 || rows[0] != "user: [[slow 2000 10ms]]" || rows[2] != "user: [[hold]] second" {
		t.Fatalf("transcript after the restart: %q", rows)
	}
	words := strings.Fields(strings.TrimPrefix(rows[1], "assistant: "))
	if len(words) < 50 || words[0] != "word1" || words[len(words)-1] != "word"+strconv.Itoa(len(words)) {
		t.Errorf("the partial answer has %d words, from %.20q", len(words), rows[1])
	}
	if answer := resumed.Payload["messages"].([]any)[1].(map[string]any); answer["finish_reason"] != "error" {
		t.Errorf("the partial answer does not say that it was cut off: %v", answer)
	}
	if resumed.Payload["isWorking"] != true || resumed.Number("queueLength") != 1 {
		t.Errorf("after the restart: %v", resumed.Payload)
	}
	gateway.Release()
	events := lastOf(second)
	if len(chat.Named(events, "run.completed")) != 2 || len(chat.Named(events, "run.failed")) != 0 {
		t.Errorf("the queue:\n%s", chat.List(events))
	}
	final := chat.Rows(second.Resume("s1"))
	if want := []string{"user: third", "assistant: echo: third"}; len(final) < 2 || !slices.Equal(final[len(final)-2:], want) {
		t.Errorf("transcript at the end: %q", final)
	}
	if turns := gateway.Turns(); len(turns) != 3 {
		t.Errorf("%d turns were sent, want 3", len(turns))
	}
}

// A client that got no ending asks by sending its message again: it learns that the
// run has failed, and nothing runs twice (RES-03, QUE-04).
func TestTheOrphanIsReported(t *testing.T) {
	gateway, edge := start(t)
	first := chat.Dial(t, edge.URL, token)
	first.Run("s1", "q1", "[[hold]]")
	first.Until("message.delta")
	await(t, gateway, "the run is under way", func(s fakegateway.State) bool { return s.Held == 1 })
	restart(t, edge, first)

	second := chat.Dial(t, edge.URL, token)
	second.Run("s1", "q1", "[[hold]]")
	events := second.Until("run.failed", "run.completed")
	failed := events[len(events)-1]
	if failed.Name != "run.failed" || failed.Text("error") == "" || failed.Text("session_id") != "s1" {
		t.Errorf("sent again:\n%s", chat.List(events))
	}
	if resumed := second.Resume("s1"); resumed.Payload["isWorking"] != false || chat.Rows(resumed)[0] != "user: [[hold]]" {
		t.Errorf("after the failure: %v", resumed.Payload)
	}
	second.Run("s1", "q2", "next")
	if text := chat.TextOf(second.Until("run.completed")); text != "echo: next" {
		t.Errorf("the next run: %q", text)
	}
	if turns := gateway.Turns(); len(turns) != 2 {
		t.Errorf("%d turns were sent, want 2", len(turns))
	}
}

// A message that the gateway has only ever refused is run again (contract 7).
func TestNeverSentIsRunAgain(t *testing.T) {
	gateway, edge := start(t)
	gateway.SetScript(func(turn *fakegateway.Turn) {
		turn.Writer.Header().Set("Retry-After", "30")
		turn.Error(http.StatusTooManyRequests, "too many runs")
	})
	first := chat.Dial(t, edge.URL, token)
	first.Run("s1", "q1", "patience")
	notice := first.UntilThat("the notice that the gateway is busy", func(e chat.Event) bool {
		return e.Name == "agent.event" || e.Name == "run.failed"
	})
	if last := notice[len(notice)-1]; last.Name == "run.failed" {
		t.Fatalf("refused for good: %v", last.Payload)
	}
	edge.Kill()
	first.Closed()
	gateway.SetScript(nil)
	edge.MustStart(t)

	second := chat.Dial(t, edge.URL, token)
	if resumed := second.Resume("s1"); resumed.Payload["isWorking"] == true {
		second.Until("run.completed", "run.failed")
	}
	want := []string{"user: patience", "assistant: echo: patience"}
	if rows := chat.Rows(second.Resume("s1")); !slices.Equal(rows, want) {
		t.Errorf("transcript %q", rows)
	}
}

// An accepted message survives whatever moment the process dies at, and is run
// once or answered with a failure (design 4.1). A client sends it again with the
// same id, as it must when it got no answer.
func TestKilledRightAfterAcceptance(t *testing.T) {
	gateway, edge := start(t)
	for i, moment := range []string{"run.queued", "usage.updated", "run.started", "message.delta"} {
		session := "s" + strconv.Itoa(i)
		c := chat.Dial(t, edge.URL, token)
		if moment == "run.queued" {
			c.Run(session, "hold-"+session, "[[hold]] "+session)
			c.Until("message.delta")
		}
		c.Run(session, "q-"+session, "text of "+session)
		c.Until(moment)
		restart(t, edge, c)
		again := chat.Dial(t, edge.URL, token)
		again.Run(session, "q-"+session, "text of "+session)
		for again.Resume(session).Payload["isWorking"] == true {
			again.Until("run.completed", "run.failed")
		}
		rows := chat.Rows(again.Resume(session))
		if n := count(rows, "user: text of "+session); n != 1 {
			t.Errorf("killed at %s: the message is there %d times in %q", moment, n, rows)
		}
		again.Close()
	}
	seen := make(map[string]int)
	for _, turn := range gateway.Turns() {
		for i := range 4 {
			if text := "text of s" + strconv.Itoa(i); strings.Contains(turn.Body, `"input":"`+text) {
				seen[text]++
			}
		}
	}
	for text, n := range seen {
		if n > 1 {
			t.Errorf("%q was sent %d times", text, n)
		}
	}
}

func count(rows []string, wanted string) int {
	n := 0
	for _, row := range rows {
		if row == wanted {
			n++
		}
	}
	return n
}

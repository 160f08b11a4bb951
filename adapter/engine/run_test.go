package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func names(events []received) string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.name
	}
	return strings.Join(out, " ")
}

// CR-20, CR-22, CR-23, CR-25, CR-26, CR-42, CR-44
func TestRunStreamsToTheSenderAndHisPeers(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	if got := b.resume("s1"); got.data["isWorking"] != false || len(got.data["messages"].([]any)) != 0 {
		t.Fatalf("CR-60: unknown session resumed as %v", got.data)
	}
	a.run("s1", "q1", "hello")
	c := r.next()
	if r.head("s1").Messages != 1 {
		t.Error("CR-20: the user message is not stored before the run starts")
	}
	c.start(t, "resp_1")
	c.say("Hel")
	c.say("lo")
	c.end(engine.Outcome{Output: "Hello", Usage: store.Usage{Input: 10, Output: 3, Context: 13}})
	end, _ := a.waitFor(0, "run.completed")
	if end.str("output") != "Hello" || end.num("queue_remaining") != 0 || end.str("run_id") != "resp_1" {
		t.Errorf("CR-37: %v", end.data)
	}
	if got := a.text(0); got != "Hello" {
		t.Errorf("text %q", got)
	}
	b.waitFor(0, "run.completed")
	if got := names(a.seen(0)); strings.Contains(got, "peer") || !strings.HasSuffix(got, "usage.updated run.completed") {
		t.Errorf("sender saw %s", got)
	}
	peer, at := b.waitFor(0, "run.peer_user_message")
	if m := peer.data["message"].(map[string]any); m["id"] != "q1" || m["content"] != "hello" {
		t.Errorf("CR-24: peer message %v", m)
	}
	if _, started := b.waitFor(0, "run.started"); started < at {
		t.Error("CR-23: peer message after run.started")
	}
	row := a.resume("s1").data["messages"].([]any)
	if len(row) != 2 || row[1].(map[string]any)["content"] != "Hello" {
		t.Errorf("CR-44: transcript %v", row)
	}
}

// CR-45..CR-49, chat-run 5.3.4: order of events around a queued message.
func TestQueuedMessageRunsAfterTheFirst(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	b.resume("s1")
	a.run("s1", "q1", "one")
	first := r.next()
	first.start(t, "r1")
	b.waitFor(0, "run.started")
	a.run("s1", "q2", "two")
	queued, _ := a.waitFor(0, "run.queued")
	list := queued.data["queued_messages"].([]any)
	if queued.num("queue_length") != 1 || list[0].(map[string]any)["id"] != "q2" || list[0].(map[string]any)["content"] != "two" {
		t.Errorf("CR-45: %v", queued.data)
	}
	_, from := b.waitFor(0, "run.queued")
	first.end(engine.Outcome{Output: "1"})
	end, _ := a.waitFor(0, "run.completed")
	if end.num("queue_remaining") != 1 {
		t.Errorf("CR-47: queue_remaining %d", end.num("queue_remaining"))
	}
	second := r.next()
	second.start(t, "r2")
	second.end(engine.Outcome{Output: "2"})
	b.wait(from, "second ending", func(e received) bool { return e.name == "run.completed" && e.str("output") == "2" })
	want := "usage.updated run.completed run.queued run.peer_user_message run.started usage.updated run.completed"
	if got := names(b.seen(from)); got != want {
		t.Errorf("5.3.4: peers saw\n %s\nwant\n %s", got, want)
	}
	dequeued, _ := b.waitFor(from, "run.queued")
	if dequeued.str("dequeued_queue_id") != "q2" || dequeued.num("queue_length") != 0 {
		t.Errorf("CR-48: %v", dequeued.data)
	}
	if len(second.turn.History) != 2 || second.turn.History[1].Content != "1" {
		t.Errorf("CR-90: history of the second turn %v", second.turn.History)
	}
}

// QUE-03: a failure at the head of the queue does not stop it.
func TestFailureStartsTheNext(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	first := r.next()
	a.run("s1", "q2", "two")
	a.waitFor(0, "run.queued")
	first.end(engine.Outcome{Failed: true, Error: "Upstream 500: broken"})
	failed, _ := a.waitFor(0, "run.failed")
	if failed.str("error") != "Upstream 500: broken" || failed.num("queue_remaining") != 1 {
		t.Errorf("CR-38: %v", failed.data)
	}
	second := r.next()
	second.end(engine.Outcome{Output: "fine"})
	done, _ := a.waitFor(0, "run.completed")
	if done.num("queue_remaining") != 0 || r.head("s1").Busy() {
		t.Errorf("CR-27: %v, busy %v", done.data, r.head("s1").Busy())
	}
}

// CR-31, CR-32, CR-35, CR-43, GW-24
func TestToolsAreRowsAndAnOpenOneIsClosed(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "list")
	c := r.next()
	c.start(t, "r1")
	c.say("Looking. ")
	c.do(func() {
		c.sink.ToolStarted(engine.ToolStart{ID: "c1", Name: "terminal", Arguments: `{"command":"ls  -la"}`})
	})
	c.do(func() { c.sink.ToolCompleted(engine.ToolEnd{ID: "c1", Output: "Error: no"}) })
	c.do(func() { c.sink.ToolStarted(engine.ToolStart{ID: "c2", Name: "read_file", Arguments: ""}) })
	c.end(engine.Outcome{Failed: true, Error: "gone"})
	a.waitFor(0, "run.failed")
	started, _ := a.waitFor(0, "tool.started")
	if started.str("preview") != "ls -la" || started.str("tool") != "terminal" || started.str("name") != "terminal" {
		t.Errorf("CR-31: %v", started.data)
	}
	open, _ := a.wait(0, "closed tool", func(e received) bool { return e.name == "tool.completed" && e.str("tool_call_id") == "c2" })
	if open.data["error"] != true {
		t.Errorf("GW-24: %v", open.data)
	}
	var roles []string
	for _, m := range a.resume("s1").data["messages"].([]any) {
		roles = append(roles, m.(map[string]any)["role"].(string))
	}
	if got := strings.Join(roles, " "); got != "user assistant assistant tool assistant tool" {
		t.Errorf("CR-35: rows %s", got)
	}
}

// CR-16, CR-17, CR-18, CR-28, D-01, D-02
func TestRefusedRuns(t *testing.T) {
	for _, tc := range []struct{ name, payload, want string }{
		{"no object", `"x"`, "must be an object"},
		{"array", `[]`, "must be an object"},
		{"no session (CR-18)", `{"input":"x","source":"cli"}`, "session_id is required for cli source"},
		{"bad session", `{"input":"x","session_id":"a/b"}`, "session_id is not valid"},
		{"no input", `{"session_id":"s1"}`, "input must be"},
		{"number input", `{"session_id":"s1","input":7}`, "input must be"},
		{"object input", `{"session_id":"s1","input":{}}`, "input must be"},
		{"empty input", `{"session_id":"s1","input":"  "}`, "empty"},
		{"blocks without type", `{"session_id":"s1","input":[{"text":"x"}]}`, "input must be"},
		{"wrong field type", `{"session_id":"s1","input":"x","profile":{}}`, "profile must be a text"},
		{"unknown profile (CR-16)", `{"session_id":"s1","input":"x","profile":"nope"}`, `Profile "nope" does not exist`},
		{"path profile (AUT-02)", `{"session_id":"s1","input":"x","profile":"../../etc"}`, `Profile "../../etc" does not exist`},
		{"forbidden profile (CR-17)", `{"session_id":"s1","input":"x","profile":"work"}`, `Profile "work" is not available for this user`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			a, b := r.client("alice"), r.client("alice")
			b.resume("s1")
			r.e.Run(context.Background(), a, json.RawMessage(tc.payload))
			ev, _ := a.waitFor(0, "run.failed")
			if !strings.Contains(ev.str("error"), tc.want) {
				t.Errorf("error %q, want %q", ev.str("error"), tc.want)
			}
			if got := names(b.seen(0)); got != "resumed" {
				t.Errorf("CR-28: others saw %s", got)
			}
			if r.head("s1").Exists() {
				t.Error("a refused run left a session behind")
			}
		})
	}
}

// QUE-04: a message sent again with the same queue_id is recognised.
func TestRepeatedMessageRunsOnce(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	c.say("text")
	a.waitFor(0, "message.delta")
	again := r.client("alice")
	again.run("s1", "q1", "one")
	again.waitFor(0, "run.started")
	c.say(" more")
	c.end(engine.Outcome{Output: "text more"})
	again.waitFor(0, "run.completed")
	if got := again.text(0); got != "text more" {
		t.Errorf("the repeated sender has %q", got)
	}
	late := r.client("alice")
	late.run("s1", "q1", "one")
	done, _ := late.waitFor(0, "run.completed")
	if done.str("output") != "text more" {
		t.Errorf("stored ending %v", done.data)
	}
	back := r.client("alice")
	back.resume("s1")
	back.run("s1", "q1", "one")
	back.waitFor(0, "run.completed")
	seen := len(a.seen(0))
	a.run("s1", "q1", "one")
	a.resume("s1")
	if got := names(a.seen(seen)); got != "resumed" {
		t.Errorf("sent again by one who saw the ending: %s", got)
	}
	other := r.client("alice")
	other.run("s1", "q1", "something else")
	other.waitFor(0, "run.failed")
	if n := r.head("s1").Messages; n != 2 {
		t.Errorf("%d rows after repeats, want 2", n)
	}
}

// RUN-04: success with nothing in it is told as a failure.
func TestEmptyAnswerFails(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	r.next().end(engine.Outcome{})
	ev, _ := a.waitFor(0, "run.failed")
	if !strings.Contains(ev.str("error"), "empty answer") {
		t.Error(ev.data)
	}
}

// An executor that panics ends its run and nothing else.
func TestPanicEndsOneRun(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.steps <- func() { panic("an executor that panics") }
	a.waitFor(0, "run.failed")
	a.run("s1", "q2", "two")
	r.next().end(engine.Outcome{Output: "ok"})
	a.waitFor(0, "run.completed")
}

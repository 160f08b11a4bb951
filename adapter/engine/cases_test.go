package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// CR-19: a run is served whatever the payload says of its source.
func TestEverySourceIsServed(t *testing.T) {
	for _, source := range []string{"cli", "api_server", "coding_agent", ""} {
		r := newRig(t)
		a := r.client("alice")
		a.run("s1", "q1", "hello", "source", source)
		r.next().end(engine.Outcome{Output: "hi"})
		a.waitFor(0, "run.completed")
	}
}

// CR-10, GW-14, RUN-11: leaving does not stop the run.
func TestRunGoesOnWithoutWatchers(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "hello")
	c := r.next()
	c.start(t, "r1")
	a.leave()
	c.say("the whole answer")
	if c.ctx.Err() != nil {
		t.Fatal("the run was stopped")
	}
	c.end(engine.Outcome{Output: "the whole answer"})
	b := r.client("alice")
	b.run("s1", "q2", "next")
	next := r.next()
	if got := next.turn.History; len(got) != 2 || got[1].Content != "the whole answer" {
		t.Errorf("history %v", got)
	}
}

// CR-46, CR-49, GW-42, QUE-01: many messages while busy run one after the other, in order,
// and none of them beside another.
func TestManyQueuedMessagesRunInOrder(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	for i := range 20 {
		a.run("s1", fmt.Sprint("q", i), fmt.Sprint(i))
	}
	for i := range 20 {
		c := r.next()
		if c.turn.Input.Text != fmt.Sprint(i) {
			t.Fatalf("run %d is %q", i, c.turn.Input.Text)
		}
		select {
		case other := <-r.x.calls:
			t.Fatalf("CR-49: %q runs beside it", other.turn.Input.Text)
		default:
		}
		c.end(engine.Outcome{Output: fmt.Sprint("answer ", i)})
		a.wait(0, "ending", func(e received) bool { return e.str("output") == fmt.Sprint("answer ", i) })
	}
}

// QUE-06: a message sent in the closing moment of a run is run, once.
func TestMessageInTheClosingMoment(t *testing.T) {
	for range 50 {
		r := newRig(t)
		a := r.client("alice")
		a.run("s1", "q1", "one")
		c := r.next()
		c.start(t, "r1")
		go c.end(engine.Outcome{Output: "1"})
		a.run("s1", "q2", "two")
		second := r.next()
		second.end(engine.Outcome{Output: "2"})
		a.wait(0, "second ending", func(e received) bool { return e.name == "run.completed" && e.str("output") == "2" })
		if got := r.head("s1"); got.Busy() || got.Messages != 4 {
			t.Fatalf("busy %v, %d rows", got.Busy(), got.Messages)
		}
	}
}

// CR-52: a queued message runs in the profile and with the options it came with.
func TestQueuedMessageKeepsItsOptions(t *testing.T) {
	r := newRig(t)
	a := r.client("alice", "default", "work")
	a.run("s1", "q1", "one", "profile", "work")
	c := r.next()
	a.run("s1", "q2", "two", "model", "m2", "instructions", "be brief")
	a.waitFor(0, "run.queued")
	c.end(engine.Outcome{Output: "1"})
	second := r.next()
	if second.turn.Profile != "work" || second.turn.Model != "m2" {
		t.Errorf("turn %+v", second.turn)
	}
	if want := "be brief"; len(second.turn.Instructions) < len(want) || second.turn.Instructions[len(second.turn.Instructions)-len(want):] != want {
		t.Errorf("instructions %q", second.turn.Instructions)
	}
}

// ABT-05: the user message of a stopped first turn stays, and is history.
func TestStoppedFirstTurnKeepsItsMessage(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "remember 42")
	r.next()
	a.abort("s1")
	_, at := a.waitFor(0, "abort.completed")
	a.run("s1", "q2", "which number?")
	c := r.next()
	if got := c.turn.History; len(got) != 1 || got[0].Content != "remember 42" {
		t.Errorf("history %v", got)
	}
	c.end(engine.Outcome{Output: "42"})
	a.waitFor(at, "run.completed")
}

// RES-06, CR-100: resume starts nothing and changes nothing, however often.
func TestResumeStartsNothing(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	for range 10 {
		a.resume("s1")
	}
	if r.head("s1").Exists() {
		t.Error("resume made a session")
	}
	a.run("s1", "q1", "one")
	r.next().end(engine.Outcome{Output: "1"})
	_, at := a.waitFor(0, "run.completed")
	for range 10 {
		a.resume("s1")
	}
	for _, e := range a.seen(at) {
		if e.name != "resumed" {
			t.Errorf("resume brought %s", e.name)
		}
	}
	if r.head("s1").Messages != 2 {
		t.Error("resume changed the transcript")
	}
}

// CR-55: answers leave in the order of the requests, also when one is large.
func TestResumesAreAnsweredInOrder(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("big", "q1", "one")
	r.next().end(engine.Outcome{Output: strings.Repeat("long ", 100_000)})
	_, at := a.waitFor(0, "run.completed")
	for _, sid := range []string{"big", "unknown", "big"} {
		r.e.Resume(context.Background(), a, encode(map[string]any{"session_id": sid}))
	}
	var order []string
	for _, e := range a.seen(at) {
		order = append(order, e.str("session_id"))
	}
	if got := strings.Join(order, " "); got != "big unknown big" {
		t.Errorf("answered in the order %s", got)
	}
}

// CR-30: empty deltas are skipped, the others arrive in order.
func TestEmptyDeltasAreSkipped(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	for _, delta := range []string{"", "a", "", "b"} {
		c.say(delta)
	}
	c.end(engine.Outcome{Output: "ab"})
	a.waitFor(0, "run.completed")
	for _, e := range a.seen(0) {
		if e.name == "message.delta" && e.str("delta") == "" {
			t.Error("an empty delta was sent")
		}
	}
	if got := a.text(0); got != "ab" {
		t.Errorf("text %q", got)
	}
}

// CR-58, CR-97: the newest 500 rows in id order, and what is known of the rest.
func TestResumeShowsTheNewestRows(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	for i := range 260 {
		at := len(a.seen(0))
		a.run("s1", fmt.Sprint("q", i), "question")
		r.next().end(engine.Outcome{Output: "answer"})
		a.waitFor(at, "run.completed")
	}
	got := r.client("alice").resume("s1")
	rows := got.data["messages"].([]any)
	last := 0.0
	for _, row := range rows {
		id := row.(map[string]any)["id"].(float64)
		if id <= last {
			t.Fatalf("CR-58: id %v after %v", id, last)
		}
		last = id
	}
	if len(rows) != 500 || last != 520 || got.num("messageTotal") != 520 || got.data["hasMoreBefore"] != true {
		t.Errorf("%d rows up to %v, total %d, more %v", len(rows), last, got.num("messageTotal"), got.data["hasMoreBefore"])
	}
	older, more, err := r.e.Messages(context.Background(), a.user, "s1", 21, 500)
	if err != nil || more || len(older) != 20 {
		t.Errorf("older rows: %d, more %v, %v", len(older), more, err)
	}
}

// CR-98: finish_reason is null on the open row only.
func TestOpenRowHasNoFinishReason(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	c.say("open")
	a.waitFor(0, "message.delta")
	rows := r.client("alice").resume("s1").data["messages"].([]any)
	open := rows[len(rows)-1].(map[string]any)
	if open["finish_reason"] != nil || open["content"] != "open" || rows[0].(map[string]any)["finish_reason"] == nil {
		t.Errorf("rows %v", rows)
	}
	c.end(engine.Outcome{Output: "open"})
	a.waitFor(0, "run.completed")
	rows = r.client("alice").resume("s1").data["messages"].([]any)
	if sealed := rows[1].(map[string]any); sealed["id"] != open["id"] || sealed["finish_reason"] != "stop" {
		t.Errorf("D-13: the open row %v became %v", open, sealed)
	}
}

// RES-05: a second window sees the queue, the text and the ending, and can stop.
func TestSecondWindowHasTheSameRights(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	c.say("text")
	a.waitFor(0, "message.delta")
	if got := b.resume("s1"); got.data["isWorking"] != true {
		t.Fatal(got.data)
	}
	b.run("s1", "q2", "two")
	a.waitFor(0, "run.queued")
	b.abort("s1")
	a.waitFor(0, "abort.completed")
	second := r.next()
	second.start(t, "r2")
	second.end(engine.Outcome{Output: "2"})
	peer, _ := a.wait(0, "peer message", func(e received) bool { return e.name == "run.peer_user_message" })
	if peer.data["message"].(map[string]any)["id"] != "q2" {
		t.Error(peer.data)
	}
	for _, e := range b.seen(0) {
		if e.name == "run.peer_user_message" {
			t.Error("CR-23: the sender got his own message")
		}
	}
}

// Limits: a full queue and too many runs are answered, not dropped.
func TestFullQueueIsAnswered(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q", "first")
	r.next()
	for i := range 33 {
		a.run("s1", fmt.Sprint("q", i), "more")
	}
	ev, _ := a.waitFor(0, "run.failed")
	if ev.str("queue_id") != "q32" {
		t.Errorf("refused %v", ev.data)
	}
}

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

func contextThatEnds() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// view is what a client shows after `resumed` and what follows.
func view(c *client, from int) string {
	var b strings.Builder
	for _, e := range c.seen(from) {
		switch e.name {
		case "resumed":
			b.Reset()
			for _, m := range e.data["messages"].([]any) {
				if m := m.(map[string]any); m["role"] == "assistant" {
					b.WriteString(m["content"].(string))
				}
			}
		case "message.delta":
			b.WriteString(e.str("delta"))
		}
	}
	return b.String()
}

// CR-53, CR-56, CR-57, CR-59, RES-02: whoever joins at any moment, any number of
// times, has what a watcher has who never left.
func TestResumeAtAnyMoment(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "go")
	c := r.next()
	c.start(t, "r1")
	a.waitFor(0, "run.started")
	var want strings.Builder
	var watchers []*client
	for i := range 300 {
		piece := fmt.Sprintf("%d,", i)
		want.WriteString(piece)
		c.say(piece)
		if i%10 == 5 {
			w := r.client("alice")
			watchers = append(watchers, w)
			ev := w.resume("s1")
			if ev.data["isWorking"] != true {
				t.Fatal("not working")
			}
			if ring := ev.data["events"].([]any); len(ring) == 0 || ring[0].(map[string]any)["event"] != "run.started" {
				t.Fatalf("CR-57: %v", ring)
			}
			if i%20 == 5 {
				w.resume("s1")
			}
		}
	}
	c.end(engine.Outcome{Output: want.String()})
	for _, w := range watchers {
		w.waitFor(0, "run.completed")
		if got := view(w, 0); got != want.String() {
			t.Fatalf("%s has\n%s\nwant\n%s", w.id, got, want.String())
		}
	}
	if got := a.text(0); got != want.String() {
		t.Error("the sender's text differs")
	}
	if ev := a.resume("s1"); len(ev.data["events"].([]any)) != 0 {
		t.Error("CR-56: events while idle")
	}
}

// A slow socket misses nothing and delays nobody.
func TestSlowSocketCatchesUp(t *testing.T) {
	r := newRig(t)
	a, slow := r.client("alice"), r.client("alice")
	slow.resume("s1")
	a.run("s1", "q1", "go")
	c := r.next()
	c.start(t, "r1")
	slow.waitFor(0, "run.started")
	slow.setFull(true)
	var want strings.Builder
	for i := range 50 {
		piece := fmt.Sprintf("%d ", i)
		want.WriteString(piece)
		c.say(piece)
	}
	a.wait(0, "all text", func(received) bool { return a.text0() == want.String() })
	slow.setFull(false)
	c.end(engine.Outcome{Output: want.String()})
	slow.waitFor(0, "run.completed")
	if got := slow.text(0); got != want.String() {
		t.Errorf("slow socket has %q", got)
	}
}

// text0 is text(0) for use inside wait, which holds the lock.
func (c *client) text0() string {
	var b strings.Builder
	for _, e := range c.events {
		if e.name == "message.delta" {
			b.WriteString(e.str("delta"))
		}
	}
	return b.String()
}

// Contract section 6: a recovered socket goes on where it stood.
func TestRecoverFromPosition(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "go")
	c := r.next()
	c.start(t, "r1")
	c.say("one ")
	a.waitFor(0, "message.delta")
	at := r.e.Rooms(a)
	a.leave()
	c.say("two ")
	back := r.client("alice")
	back.id = a.id
	r.e.Recover(context.Background(), back, at[0])
	c.say("three")
	c.end(engine.Outcome{Output: "one two three"})
	back.waitFor(0, "run.completed")
	if got := back.text(0); got != "two three" {
		t.Errorf("recovered socket got %q: %s", got, names(back.seen(0)))
	}
	if got := names(back.seen(0)); strings.Contains(got, "resumed") {
		t.Errorf("recovered by a snapshot: %s", got)
	}
}

// A place that cannot be read any more: the ending that is owed, then a snapshot.
func TestRecoverWithoutPlace(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "go")
	c := r.next()
	c.start(t, "r1")
	c.say("text")
	a.waitFor(0, "message.delta")
	at := r.e.Rooms(a)[0]
	a.leave()
	c.end(engine.Outcome{Output: "text"})
	w := r.client("alice")
	w.run("s1", "q2", "again")
	r.next().end(engine.Outcome{Output: "2"})
	w.waitFor(0, "run.completed")
	at.Position.Stamp = "lost"
	back := r.client("alice")
	r.e.Recover(context.Background(), back, at)
	done, n := back.waitFor(0, "run.completed")
	if done.str("output") != "text" {
		t.Errorf("owed ending %v", done.data)
	}
	back.waitFor(n, "resumed")
}

// H18: whoever waits for an id that somebody else then uses sees nothing of it.
func TestUnboundMemberIsAuthorisedAnew(t *testing.T) {
	r := newRig(t)
	m, a, second := r.client("mallory"), r.client("alice"), r.client("alice")
	m.resume("s1")
	second.resume("s1")
	a.run("s1", "q1", "secret")
	r.next().end(engine.Outcome{Output: "secret"})
	a.waitFor(0, "run.completed")
	second.waitFor(0, "run.completed")
	if got := names(m.seen(0)); got != "resumed" {
		t.Errorf("the stranger saw %s", got)
	}
}

// RES-03, contract 5.6: the node dies, another ends the run or runs it.
func TestTakeoverAfterDeath(t *testing.T) {
	t.Run("not sent: run again", func(t *testing.T) {
		r := newRig(t)
		a := r.client("alice")
		a.run("s1", "q1", "one")
		r.next()
		r.kill()
		if got := r.next(); got.turn.Input.Text != "one" {
			t.Errorf("ran %q", got.turn.Input.Text)
		}
		if n := r.head("s1").Messages; n != 1 {
			t.Errorf("%d user rows, want one", n)
		}
	})
	t.Run("sent: fails with its text, queue goes on", func(t *testing.T) {
		r := newRig(t)
		a := r.client("alice")
		a.run("s1", "q1", "one")
		c := r.next()
		c.start(t, "r1")
		c.say("half an answer")
		a.waitFor(0, "message.delta")
		a.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		r.kill()
		if got := r.next(); got.turn.Input.Text != "two" {
			t.Errorf("ran %q", got.turn.Input.Text)
		}
		b := r.client("alice")
		rows := b.resume("s1").data["messages"].([]any)
		if row := rows[1].(map[string]any); row["content"] != "half an answer" || row["finish_reason"] != "error" {
			t.Errorf("text of the orphan: %v", row)
		}
	})
}

// kill ends the node without a word and starts another after the lease.
func (r *rig) kill() {
	r.e.Close()
	r.clock.add(time.Minute)
	r.e = r.node("n2")
}

func TestDeleteStopsTheRunAndForgets(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	b.resume("s1")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	if err := r.e.DeleteSession(context.Background(), r.client("mallory").user, "s1"); err == nil {
		t.Fatal("a stranger deleted the session")
	}
	if err := r.e.DeleteSession(context.Background(), a.user, "s1"); err != nil {
		t.Fatal(err)
	}
	b.waitFor(0, "abort.completed")
	b.waitFor(0, "session.deleted")
	if r.head("s1").Exists() {
		t.Error("the session is still there")
	}
	a.run("s1", "q9", "anew")
	r.next().end(engine.Outcome{Output: "new"})
	b.wait(0, "new ending", func(e received) bool { return e.name == "run.completed" && e.str("output") == "new" })
}

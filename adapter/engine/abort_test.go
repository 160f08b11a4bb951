package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// CR-64
func TestAbortOfNothing(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.abort("s1")
	ev, _ := a.waitFor(0, "abort.completed")
	if ev.data["ignored"] != true || ev.data["synced"] != false {
		t.Error(ev.data)
	}
}

// CR-65, CR-66, CR-67, CR-69, CR-71, ABT-03, ABT-04
func TestAbortKeepsTextAndRunsTheQueue(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	b.resume("s1")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	c.say("partial")
	a.waitFor(0, "message.delta")
	a.run("s1", "q2", "two")
	a.waitFor(0, "run.queued")
	a.abort("s1")
	a.abort("s1")
	b.abort("s1")
	started, _ := a.waitFor(0, "abort.started")
	if started.num("graceMs") != 5000 || started.str("run_id") != "r1" {
		t.Errorf("CR-65: %v", started.data)
	}
	done, at := a.waitFor(0, "abort.completed")
	if done.num("queue_length") != 1 || done.str("run_id") != "r1" {
		t.Errorf("CR-67: %v", done.data)
	}
	second := r.next()
	second.start(t, "r2")
	second.end(engine.Outcome{Output: "2"})
	a.waitFor(at, "run.completed")
	b.waitFor(0, "run.completed")
	for _, c := range []*client{a, b} {
		got := names(c.seen(0))
		if strings.Count(got, "abort.completed") != 1 || strings.Count(got, "abort.started") != 1 || strings.Contains(got, "run.failed") {
			t.Errorf("CR-71: %s saw %s", c.id, got)
		}
	}
	rows := a.resume("s1").data["messages"].([]any)
	if row := rows[1].(map[string]any); row["content"] != "partial" {
		t.Errorf("CR-69: %v", row)
	}
}

// CR-70, D-06, ABT-01: a run that is still starting is stopped.
func TestAbortWhileStarting(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	a.abort("s1")
	a.waitFor(0, "abort.completed")
	<-c.ctx.Done()
	if r.head("s1").Busy() {
		t.Error("busy after the abort")
	}
}

// ABT-06: a stop that meets the end of the run gives one ending.
func TestAbortAtTheEnd(t *testing.T) {
	for range 50 {
		r := newRig(t)
		a := r.client("alice")
		a.run("s1", "q1", "one")
		c := r.next()
		c.start(t, "r1")
		c.say("x")
		go c.end(engine.Outcome{Output: "x"})
		a.abort("s1")
		a.wait(0, "ending", func(e received) bool {
			return e.name == "run.completed" || e.name == "abort.completed" && e.data["ignored"] == nil
		})
		a.run("s1", "q2", "two")
		r.next().end(engine.Outcome{Output: "y"})
		a.wait(0, "second ending", func(e received) bool { return e.name == "run.completed" && e.str("output") == "y" })
		endings := 0
		for _, e := range a.seen(0) {
			if e.name == "run.completed" || e.name == "abort.completed" && e.data["ignored"] == nil {
				endings++
			}
		}
		if endings != 2 {
			t.Fatalf("%d endings of two runs: %s", endings, names(a.seen(0)))
		}
	}
}

// QUE-02, CR-50, CR-51
func TestCancelQueued(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	a.run("s1", "q2", "two")
	a.run("s1", "q3", "three")
	_, at := a.wait(0, "two queued", func(e received) bool { return e.name == "run.queued" && e.num("queue_length") == 2 })
	r.e.CancelQueued(t.Context(), a, encode(map[string]any{"session_id": "s1", "queue_id": "unknown"}))
	r.e.CancelQueued(t.Context(), a, encode(map[string]any{"session_id": "s1", "queue_id": "q2"}))
	ev, _ := a.waitFor(at, "run.queued")
	list := ev.data["queued_messages"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["id"] != "q3" {
		t.Errorf("CR-50: %v", ev.data)
	}
	c.end(engine.Outcome{Output: "1"})
	if got := r.next(); got.turn.Input.Text != "three" {
		t.Errorf("ran %q", got.turn.Input.Text)
	}
}

// AUT-01, D-03, CR-62: a stranger sees and changes nothing.
func TestStrangerIsRefused(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "secret")
	c := r.next()
	c.start(t, "r1")
	a.run("s1", "q2", "two")
	a.waitFor(0, "run.queued")
	m := r.client("mallory")
	if got := m.resume("s1"); len(got.data["messages"].([]any)) != 0 || got.data["isWorking"] != false {
		t.Errorf("CR-62: %v", got.data)
	}
	m.run("s1", "x", "mine")
	m.waitFor(0, "run.failed")
	m.abort("s1")
	m.waitFor(0, "abort.completed")
	r.e.CancelQueued(t.Context(), m, encode(map[string]any{"session_id": "s1", "queue_id": "q2"}))
	c.say("for alice")
	a.waitFor(0, "message.delta")
	c.end(engine.Outcome{Output: "for alice"})
	second := r.next()
	second.end(engine.Outcome{Output: "2"})
	a.wait(0, "end", func(e received) bool { return e.name == "run.completed" && e.str("output") == "2" })
	if got := names(m.seen(0)); got != "resumed run.failed abort.completed" {
		t.Errorf("the stranger saw %s", got)
	}
}

func TestDrainFailsWhatDoesNotEnd(t *testing.T) {
	r := newRig(t)
	a := r.client("alice")
	a.run("s1", "q1", "one")
	c := r.next()
	c.start(t, "r1")
	c.say("half")
	a.waitFor(0, "message.delta")
	a.run("s1", "q2", "two")
	a.waitFor(0, "run.queued")
	ctx, cancel := contextThatEnds()
	defer cancel()
	r.e.Drain(ctx)
	failed, _ := a.waitFor(0, "run.failed")
	if !strings.Contains(failed.str("error"), "restarting") {
		t.Error(failed.data)
	}
	head := r.head("s1")
	if head.QueueLength != 1 || head.Run.Run != "" {
		t.Errorf("the waiting message is not kept: %+v", head)
	}
	r.clock.add(time.Minute)
	r.e = r.node("n2")
	if got := r.next(); got.turn.Input.Text != "two" {
		t.Errorf("the next process ran %q", got.turn.Input.Text)
	}
}

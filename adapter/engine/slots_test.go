package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// oneSlot lets one run at a time work at the gateway.
func oneSlot(cfg *engine.Config, _ *node) {
	cfg.Slots = func(string) (string, int) { return "http://gateway", 1 }
}

// slotted starts nodes with one place at their gateway.
func slotted(t *testing.T, n int, test func(t *testing.T, c *cluster, nodes []*node)) {
	inCluster(t, 0, func(t *testing.T, c *cluster, _ []*node) {
		for range n {
			c.start(oneSlot)
		}
		time.Sleep(6 * time.Second)
		test(t, c, c.nodes)
	})
}

// Rulings, part of Redis; contract 5.2.1: the live work of a gateway is bounded over all
// nodes; what is more waits in order, visibly, before anything is sent.
func TestRunsBeyondTheLimitWaitInOrder(t *testing.T) {
	slotted(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		_, first := begin(t, nodes[0])
		b, d := nodes[1].client("alice"), nodes[0].client("alice")
		b.run("s2", "q1", "second")
		b.wait(0, "the wait", func(e received) bool {
			return e.name == "agent.event" && strings.Contains(e.str("text"), "place 1")
		})
		d.run("s3", "q1", "third")
		d.wait(0, "the wait", func(e received) bool {
			return e.name == "agent.event" && strings.Contains(e.str("text"), "place 2")
		})
		time.Sleep(time.Minute)
		if ph := c.head("s2").Run.Phase; ph != store.PhaseStarting {
			t.Errorf("phase %s while it waits", ph)
		}
		select {
		case run := <-nodes[1].x.calls:
			t.Fatalf("%q is run beside the first", run.turn.Input.Text)
		case run := <-nodes[0].x.calls:
			t.Fatalf("%q is run beside the first", run.turn.Input.Text)
		default:
		}
		first.end(engine.Outcome{Output: "One "})
		second := nodes[1].next()
		select {
		case <-nodes[0].x.calls:
			t.Error("the third is run beside the second")
		case <-time.After(10 * time.Second):
		}
		second.end(engine.Outcome{Output: "2"})
		nodes[0].next().end(engine.Outcome{Output: "3"})
		b.waitFor(0, "run.completed")
		d.waitFor(0, "run.completed")
		if n := strings.Count(names(b.seen(0)), "agent.event"); n != 1 {
			t.Errorf("told %d times of the same place", n)
		}
	})
}

// A stop ends the wait, and one that outlives its limit fails with a clear text.
func TestWaitForAPlaceEnds(t *testing.T) {
	slotted(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		_, first := begin(t, nodes[0])
		b, d := nodes[0].client("alice"), nodes[0].client("alice")
		b.run("s2", "q1", "second")
		b.waitFor(0, "agent.event")
		b.abort("s2")
		b.waitFor(0, "abort.completed")
		d.run("s3", "q1", "third")
		d.waitFor(0, "agent.event")
		time.Sleep(10 * time.Minute)
		failed, _ := d.waitFor(0, "run.failed")
		if !strings.Contains(failed.str("error"), "busy with other chats") {
			t.Error(failed.data)
		}
		first.end(engine.Outcome{Output: "One "})
	})
}

// No run goes past the line because the store is away, and the place of a dead node
// comes free.
func TestPlaceOutlivesOutagesButNotItsNode(t *testing.T) {
	slotted(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		begin(t, nodes[0])
		b := nodes[1].client("alice")
		b.run("s2", "q1", "second")
		b.waitFor(0, "agent.event")
		nodes[1].weather.set(down)
		time.Sleep(10 * time.Second)
		select {
		case <-nodes[1].x.calls:
			t.Fatal("past the line")
		default:
		}
		nodes[1].weather.set(clear)
		synctest.Wait()
		nodes[0].kill()
		died := time.Now()
		nodes[1].next().end(engine.Outcome{Output: "2"})
		if took := time.Since(died); took > store.LeaseTTL+2*time.Second {
			t.Errorf("the place came free after %v", took)
		}
		b.waitFor(0, "run.completed")
	})
}

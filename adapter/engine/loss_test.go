package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// shown is the chat as a client that has just resumed shows it.
func shown(ev received) string {
	var b strings.Builder
	for _, m := range ev.data["messages"].([]any) {
		b.WriteString(m.(map[string]any)["content"].(string) + "|")
	}
	return b.String()
}

// H26, H20, contract 9.4, 9.6: a run that the store has lost, in part or with all that
// there was, is brought back by its owner and goes on; everybody starts from a
// snapshot.
func TestLostRunIsBroughtBack(t *testing.T) {
	for name, early := range map[string]bool{"last writes": false, "everything": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
				m := c.mark()
				a, run := begin(t, nodes[0])
				b := nodes[1].client("alice")
				b.resume("s1")
				if !early {
					m = c.mark()
				}
				run.say("two ")
				run.do(func() {
					run.sink.ToolStarted(engine.ToolStart{ID: "t1", Name: "look"})
					run.sink.ToolCompleted(engine.ToolEnd{ID: "t1", Output: "seen"})
				})
				run.say("three ")
				b.came("two three ")
				c.fallBack(m, 3*time.Second)
				time.Sleep(time.Second)
				synctest.Wait()
				for _, w := range []*client{a, b} {
					if w.closedFor() != engine.CloseBehind {
						t.Errorf("%s: closed for %q", w.id, w.closedFor())
					}
					if strings.Contains(names(w.seen(0)), "session.deleted") {
						t.Errorf("%s was told of a deletion", w.id)
					}
				}
				again := nodes[1].client("alice")
				if got := shown(again.resume("s1")); got != "one|One two ||seen|three |" {
					t.Errorf("the snapshot shows %q", got)
				}
				run.say("four")
				run.end(engine.Outcome{Output: "One two three four"})
				again.waitFor(0, "run.completed")
				if got := again.text(0); got != "four" {
					t.Errorf("then came %q", got)
				}
				if got := shown(nodes[0].client("alice").resume("s1")); got != "one|One two ||seen|three four|" {
					t.Errorf("kept: %q", got)
				}
				if again.endings() != 1 || c.head("s1").Busy() {
					t.Errorf("%d endings, busy %v", again.endings(), c.head("s1").Busy())
				}
			})
		})
	}
}

// Contract 9.4: what waited for the store when it fell back is brought back too.
func TestOutboxSurvivesTheLoss(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		m := c.mark()
		_, run := begin(t, nodes[0])
		nodes[0].weather.set(silent)
		run.say("two ")
		run.say("three ")
		c.fallBack(m, 3*time.Second)
		time.Sleep(3 * time.Second)
		again := nodes[0].client("alice")
		if got := shown(again.resume("s1")); got != "one|One two three |" {
			t.Errorf("the snapshot shows %q", got)
		}
		run.say("four")
		run.end(engine.Outcome{Output: "One two three four"})
		again.waitFor(0, "run.completed")
		if got := shown(nodes[0].client("alice").resume("s1")); got != "one|One two three four|" {
			t.Errorf("kept: %q", got)
		}
	})
}

// H25: the store falls back behind the end of one run and the start of the next one:
// the first is ended again, the second goes on, and neither runs twice.
func TestLostPopIsRepeated(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, first := begin(t, nodes[0])
		a.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		m := c.mark()
		first.end(engine.Outcome{Output: "One "})
		second := nodes[0].next()
		second.start(t, "r2")
		second.say("Two ")
		c.fallBack(m, 2*time.Second)
		time.Sleep(8 * time.Second)
		b := nodes[1].client("alice")
		ev := b.resume("s1")
		if got := shown(ev); got != "one|One |two|Two " && got != "one|One |two|Two |" || len(ev.data["queueMessages"].([]any)) != 0 {
			t.Errorf("after the loss: %q, %v", got, ev.data["queueMessages"])
		}
		second.say("more")
		second.end(engine.Outcome{Output: "Two more"})
		b.waitFor(0, "run.completed")
		time.Sleep(30 * time.Second)
		c.idle("s1")
	})
}

// H24, H25: the store falls back behind the end of the last run: it is ended again,
// and nobody takes it over meanwhile.
func TestLostEndingIsRepeated(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		m := c.mark()
		run.say("two")
		run.end(engine.Outcome{Output: "One two"})
		a.waitFor(0, "run.completed")
		c.fallBack(m, 20*time.Second)
		time.Sleep(2 * time.Second)
		if c.head("s1").Busy() {
			t.Error("H25: the run lives again")
		}
		if got := shown(nodes[1].client("alice").resume("s1")); got != "one|One two|" {
			t.Errorf("kept: %q", got)
		}
	})
}

// H24: all leases have ended while the store was away: nobody takes a living run over.
func TestNobodyTakesOverWhileOwnersComeBack(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, c *cluster, nodes []*node) {
		_, run := begin(t, nodes[0])
		c.fallBack(c.mark(), 40*time.Second)
		nodes[0].weather.set(down) // the owner is the last to come back
		time.Sleep(4 * time.Second)
		nodes[1].client("alice").resume("s1")
		if now := c.head("s1").Run; now.Node != "n1" {
			t.Fatalf("%s has taken over", now.Node)
		}
		nodes[0].weather.set(clear)
		time.Sleep(10 * time.Second)
		run.say("two")
		run.end(engine.Outcome{Output: "One two"})
		b := nodes[2].client("alice")
		if ev := b.resume("s1"); ev.data["isWorking"] == true {
			b.waitFor(0, "run.completed")
		}
		if got := nodes[0].gauges.fenced.Load(); got != 0 {
			t.Errorf("%d runs lost", got)
		}
	})
}

// Contract 9.4: nothing begins in the seconds behind a loss, and what was accepted in
// them begins afterwards.
func TestNothingBeginsWhileSettling(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		c.fallBack(c.mark(), time.Second)
		a := nodes[1].client("alice")
		a.run("s1", "q1", "one")
		a.waitFor(0, "run.queued")
		time.Sleep(4 * time.Second)
		if c.head("s1").Run.Run != "" {
			t.Error("begun while settling")
		}
		var run *call
		select {
		case run = <-nodes[0].x.calls:
		case run = <-nodes[1].x.calls:
		case <-time.After(5 * time.Second):
			t.Fatal("forgotten")
		}
		run.end(engine.Outcome{Output: "1"})
		a.waitFor(0, "run.completed")
	})
}

// Contract 9.4: a run whose place another one has taken is stopped, and kept as failed.
func TestRunWithoutAPlaceIsBuried(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		m := c.mark()
		_, run := begin(t, nodes[0])
		c.fallBack(m, time.Second)
		nodes[0].weather.set(down)
		time.Sleep(6 * time.Second)
		b := nodes[1].client("alice")
		b.run("s1", "q9", "nine")
		other := nodes[1].next()
		other.start(t, "r9")
		nodes[0].weather.set(clear)
		<-run.ctx.Done()
		other.end(engine.Outcome{Output: "9"})
		b.waitFor(0, "run.completed")
		time.Sleep(5 * time.Second)
		if got := shown(nodes[1].client("alice").resume("s1")); !strings.Contains(got, "one|One |") || !strings.Contains(got, "nine|") {
			t.Errorf("kept: %q", got)
		}
		if nodes[0].gauges.buried.Load() != 1 {
			t.Error("not buried")
		}
	})
}

// A chat that the store has lost, with nobody to bring it back: its watchers are not
// told of a deletion; they come back and see what there is.
func TestLostIdleChat(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		m := c.mark()
		a, run := begin(t, nodes[0])
		run.end(engine.Outcome{Output: "One "})
		a.waitFor(0, "run.completed")
		b := nodes[1].client("alice")
		b.resume("s1")
		time.Sleep(2 * time.Minute) // the ending is not kept any more
		c.fallBack(m, time.Second)
		time.Sleep(3 * time.Second)
		for _, w := range []*client{a, b} {
			if w.closedFor() != engine.CloseBehind || strings.Contains(names(w.seen(0)), "session.deleted") {
				t.Errorf("%s: closed for %q after %s", w.id, w.closedFor(), names(w.seen(0)))
			}
		}
	})
}

// What is kept to make losses good is bounded: a run beyond it fails when the store
// loses a part of it, and keeps its text; with the whole lost it is recorded.
func TestRunTooLargeToBeBroughtBack(t *testing.T) {
	for name, early := range map[string]bool{"last writes": false, "everything": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
				m := c.mark()
				_, run := begin(t, nodes[0])
				output := strings.Repeat("x", 1<<20)
				for range 17 {
					run.do(func() { run.sink.ResultRecorded(engine.ToolEnd{ID: "t", Output: output}) })
				}
				if !early {
					m = c.mark()
				}
				run.say("the rest")
				synctest.Wait()
				c.fallBack(m, time.Second)
				<-run.ctx.Done()
				time.Sleep(10 * time.Second)
				b := nodes[0].client("alice")
				got := b.resume("s1")
				if got.data["isWorking"] != false || !strings.HasSuffix(shown(got), "the rest|") {
					t.Errorf("kept: %.200q", shown(got))
				}
				b.run("s1", "q2", "two")
				nodes[0].next().end(engine.Outcome{Output: "2"})
				b.waitFor(0, "run.completed")
			})
		})
	}
}

// H9, contract 9.4: a run that was not sent yet keeps quiet while the store settles:
// another node may have sent it, and the store may have lost that.
func TestUnsentRunKeepsQuietWhileSettling(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a := own.client("alice")
		a.run("s1", "q1", "one")
		run := own.next()
		own.weather.set(down)
		sent := make(chan error, 1)
		go run.do(func() { sent <- run.sink.Sending(run.ctx) })
		time.Sleep(time.Second)
		c.fallBack(c.mark(), 0)
		time.Sleep(4 * time.Second)
		if ph := c.head("s1").Run.Phase; ph != store.PhaseStarting {
			t.Errorf("phase %s while settling", ph)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		run.end(engine.Outcome{Output: "1"})
		a.waitFor(0, "run.completed")
	})
}

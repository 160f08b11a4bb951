package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// begin starts a run of alice on a node and says something.
func begin(t *testing.T, n *node) (*client, *call) {
	t.Helper()
	a := n.client("alice")
	a.run("s1", "q1", "one")
	c := n.next()
	c.start(t, "r1")
	c.say("One ")
	a.came("One ")
	return a, c
}

// Contract 9.2, H1, H2: while the store is away the run goes on for the owner's
// clients; nothing ends, nothing is lost and nothing comes twice.
func TestRunGoesOnWhileTheStoreIsAway(t *testing.T) {
	for name, s := range map[string]sky{"down": down, "silent": silent, "deaf": deaf} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
				own, other := nodes[0], nodes[1]
				a, run := begin(t, own)
				b := other.client("alice")
				b.resume("s1")
				own.weather.set(s)
				run.say("two ")
				run.say("three ")
				a.came("One two three ")
				volatile := 0
				for _, e := range a.seen(0) {
					if e.volatile {
						volatile++
					}
				}
				if volatile == 0 {
					t.Error("nothing is marked as volatile")
				}
				run.end(engine.Outcome{Output: "One two three "})
				time.Sleep(8 * time.Second)
				if a.endings() != 0 {
					t.Errorf("9.2: ended without the store: %s", names(a.seen(0)))
				}
				own.weather.set(clear)
				a.waitFor(0, "run.completed")
				b.waitFor(0, "run.completed")
				for _, w := range []*client{a, b} {
					if w.closedFor() != "" || w.endings() != 1 {
						t.Errorf("%s: closed %q, %d endings", w.id, w.closedFor(), w.endings())
					}
				}
				if a.text(0) != "One two three " {
					t.Errorf("the owner's client has %q", a.text(0))
				}
				if got := b.text(0); got != "two three " {
					t.Errorf("the other node's client has %q", got)
				}
				synctest.Wait()
				if at := a.rooms["s1"]; at.Position != c.head("s1").Head || at.Volatile {
					t.Errorf("the client stands at %+v, the log at %+v", at, c.head("s1").Head)
				}
			})
		})
	}
}

// Whoever comes in the middle of the outage gets what others have seen before.
func TestMemberThatComesLateGetsAllOfIt(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a, run := begin(t, own)
		full := own.client("alice")
		full.resume("s1")
		full.setFull(true)
		own.weather.set(down)
		run.say("two ")
		a.came("One two ")
		own.weather.set(clear)
		late := own.client("alice")
		late.resume("s1")
		full.setFull(false)
		run.say("three")
		run.end(engine.Outcome{Output: "One two three"})
		for _, w := range []*client{a, late, full} {
			w.waitFor(0, "run.completed")
		}
		if got := a.text(0); got != "One two three" {
			t.Errorf("first: %q", got)
		}
		if got := full.text(0); got != "two three" {
			t.Errorf("slow: %q", got)
		}
		seen := late.seen(0)[0].data["messages"].([]any)
		last := seen[len(seen)-1].(map[string]any)["content"].(string)
		if got := last + late.text(0); got != "One two three" {
			t.Errorf("late: %q", got)
		}
	})
}

// Contract 9.2, ABT-03: a stop acts upstream at once and is recorded when the store is
// back; until then nobody is told that the run has ended.
func TestStopWhileTheStoreIsAway(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		nodes[0].weather.set(down)
		for range 3 {
			a.abort("s1")
		}
		<-run.ctx.Done()
		time.Sleep(3 * time.Second)
		if got := names(a.seen(0)); strings.Contains(got, "abort") {
			t.Errorf("told without the store: %s", got)
		}
		nodes[0].weather.set(clear)
		_, at := a.waitFor(0, "abort.started")
		a.waitFor(at, "abort.completed")
		if a.endings() != 1 || c.head("s1").Busy() {
			t.Errorf("%s, busy %v", names(a.seen(0)), c.head("s1").Busy())
		}
	})
}

// H9, contract 5.2.3: the upstream is called only by an owner whom the store has
// confirmed a moment ago.
func TestNothingIsSentUntilTheStoreConfirms(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a := own.client("alice")
		a.run("s1", "q1", "one")
		run := own.next()
		own.weather.set(silent)
		sent := make(chan error, 1)
		go run.do(func() { sent <- run.sink.Sending(run.ctx) })
		time.Sleep(12 * time.Second)
		select {
		case err := <-sent:
			t.Fatalf("sent while the store was away: %v", err)
		default:
		}
		if n := strings.Count(names(a.seen(0)), "agent.event"); n != 1 {
			t.Errorf("9.3: told %d times that the server is reconnecting", n)
		}
		own.weather.set(clear)
		if err := <-sent; err != nil {
			t.Error(err)
		}
		run.end(engine.Outcome{Output: "x"})
		a.waitFor(0, "run.completed")
	})
}

// Contract 5.2.3: a word of the store that was asked for long ago is no permission.
func TestOldConfirmationIsRenewedBeforeSending(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a := own.client("alice")
		a.run("s1", "q1", "one")
		run := own.next()
		own.weather.set(down)
		own.weather.setAppends(slow)
		sent := make(chan error, 1)
		go run.do(func() { sent <- run.sink.Sending(run.ctx) })
		time.Sleep(2 * slowness)
		select {
		case err := <-sent:
			t.Fatalf("sent on an old word of the store: %v", err)
		default:
		}
		own.weather.set(clear)
		if err := <-sent; err != nil {
			t.Error(err)
		}
		run.end(engine.Outcome{Output: "x"})
		a.waitFor(0, "run.completed")
	})
}

// A batch whose answer was lost, and that a reader finds in the log before its writer
// gives up waiting, is not shown a second time.
func TestBatchReadBeforeItIsHandedOver(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a, run := begin(t, own)
		own.weather.setAppends(deaf)
		said := make(chan struct{})
		go func() { run.say("two "); close(said) }()
		time.Sleep(100 * time.Millisecond)
		own.client("alice").resume("s1")
		if got := a.text(0); got != "One two " {
			t.Fatalf("not read from the log: %q", got)
		}
		<-said
		run.say("three")
		synctest.Wait()
		if got := a.text(0); got != "One two three" {
			t.Errorf("%q", got)
		}
		own.weather.set(clear)
		run.end(engine.Outcome{Output: "One two three"})
		a.waitFor(0, "run.completed")
	})
}

// H3, H9, contract 9.3: a node that was cut off while another took
// its run over leaves it: it stops the upstream and closes those who saw more than the
// log has.
func TestCutOffOwnerLeaves(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		own, other := nodes[0], nodes[1]
		a, run := begin(t, own)
		b := other.client("alice")
		b.resume("s1")
		own.weather.set(down)
		run.say("never logged")
		a.came("One never logged")
		failed, _ := b.waitFor(0, "run.failed")
		if got := failed.str("output"); got != "One " {
			t.Errorf("kept %q", got)
		}
		if run.ctx.Err() != nil {
			t.Error("the cut off node knew")
		}
		own.weather.set(clear)
		<-run.ctx.Done()
		synctest.Wait()
		if a.closedFor() != engine.CloseBehind {
			t.Errorf("closed for %q", a.closedFor())
		}
		if a.endings() > 1 || b.endings() != 1 {
			t.Errorf("%d and %d endings", a.endings(), b.endings())
		}
	})
}

// Contract 9.3: what an upstream says while the store is away is bounded; the failed
// ending waits for the store.
func TestOutboxIsBounded(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		nodes[0].weather.set(down)
		chunk := strings.Repeat("x", 60<<10)
		for i := 0; i < 100 && run.ctx.Err() == nil; i++ {
			select {
			case run.steps <- func() { run.sink.Text(chunk) }:
			case <-run.ctx.Done():
			}
		}
		if run.ctx.Err() == nil {
			t.Fatal("the upstream was not stopped")
		}
		time.Sleep(time.Minute)
		if a.endings() != 0 {
			t.Error("ended without the store")
		}
		nodes[0].weather.set(clear)
		failed, _ := a.waitFor(0, "run.failed")
		if !strings.Contains(failed.str("error"), "away for too long") || len(a.text(0)) < 3<<20 {
			t.Errorf("%.100s, %d bytes shown", failed.str("error"), len(a.text(0)))
		}
		if got := nodes[0].gauges.outbox.Load(); got != 0 {
			t.Errorf("%d bytes are counted although all is stored", got)
		}
	})
}

// Contract 9.2: after a minute of outage nothing is shown any more, and all of it comes
// when the store is back.
func TestVolatileDeliveryEnds(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		nodes[0].weather.set(down)
		run.say("two ")
		a.came("One two ")
		time.Sleep(61 * time.Second)
		run.say("three")
		synctest.Wait()
		if got := a.text(0); got != "One two " {
			t.Errorf("shown after a minute: %q", got)
		}
		nodes[0].weather.set(clear)
		a.came("One two three")
		run.end(engine.Outcome{Output: "One two three"})
		a.waitFor(0, "run.completed")
	})
}

// Contract 5.8, 1.10: a lost hint costs two seconds.
func TestTailFindsWhatNoHintHasSpokenOf(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		_, run := begin(t, nodes[0])
		b := nodes[1].client("alice")
		b.resume("s1")
		nodes[1].weather.mute()
		run.say("two")
		began := time.Now()
		b.came("two")
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("found after %v", took)
		}
		run.end(engine.Outcome{Output: "One two"})
		b.waitFor(0, "run.completed")
	})
}

// Contract 5.8: a resume waits for a store that is away, for ten seconds.
func TestResumeWaitsForTheStore(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		own.weather.set(down)
		time.AfterFunc(8*time.Second, func() { own.weather.set(clear) })
		b := own.client("alice")
		b.resume("s2")
		own.weather.set(down)
		gone := own.client("alice")
		own.e.Resume(t.Context(), gone, encode(map[string]any{"session_id": "s3"}))
		if gone.closedFor() != engine.CloseStore {
			t.Errorf("closed for %q", gone.closedFor())
		}
	})
}

// H4: a message whose first try may yet be executed is withdrawn when the next one
// finds nobody there: what the sender is told is not to be run is not run.
func TestMessageInDoubtIsWithdrawn(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a := own.client("alice")
		own.weather.submits(func() {
			own.weather.set(down)
			time.AfterFunc(4*time.Second, func() { own.weather.set(clear) })
		})
		a.run("s1", "q1", "one")
		a.waitFor(0, "run.failed")
		time.Sleep(40 * time.Second)
		c.idle("s1")
	})
}

// A queue whose contents cannot be read is not shown as empty: the log is delivered up
// to there, and goes on when they can be read.
func TestQueueThatCannotBeReadIsNotShownAsEmpty(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		b := nodes[1].client("alice")
		b.resume("s1")
		nodes[1].weather.setContents(down)
		a.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		run.say("two")
		time.Sleep(5 * time.Second)
		if got := names(b.seen(0)); got != "resumed" {
			t.Errorf("shown: %s", got)
		}
		nodes[1].weather.setContents(clear)
		queued, _ := b.waitFor(0, "run.queued")
		if list := queued.data["queued_messages"].([]any); len(list) != 1 {
			t.Errorf("queue of %d", len(list))
		}
		b.came("two")
		run.end(engine.Outcome{Output: "One two"})
	})
}

// Contract 6: as long as a client has seen more than the log has brought, it is not told
// a position, also behind entries of others.
func TestPositionIsNotToldWhileAhead(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		b := nodes[1].client("alice")
		nodes[0].weather.setAppends(down)
		run.say("two")
		a.came("One two")
		b.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		if room := a.rooms["s1"]; !room.Volatile {
			t.Errorf("told %+v", room)
		}
		nodes[0].weather.set(clear)
		time.Sleep(time.Second)
		b.run("s1", "q3", "three")
		a.wait(0, "two queued", func(e received) bool { return e.name == "run.queued" && e.num("queue_length") == 2 })
		if room := a.rooms["s1"]; room.Volatile || room.Position != c.head("s1").Head {
			t.Errorf("told %+v", room)
		}
		run.end(engine.Outcome{Output: "One two"})
	})
}

package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// H17: a member that resumes again is sent nothing that the snapshot does not have,
// until it has the snapshot: no ending comes twice.
func TestResumeOfAMemberIsNotOlderThanWhatItHas(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		b := nodes[0].client("alice")
		b.resume("s1")
		nodes[0].weather.whenTaken(func() {
			run.say("two")
			run.end(engine.Outcome{Output: "One two"})
			b.waitFor(0, "run.completed")
		})
		at := len(a.seen(0))
		a.resume("s1")
		a.waitFor(at, "run.completed")
		if got := names(a.seen(at)); got != "resumed message.delta usage.updated run.completed" {
			t.Errorf("it got %s", got)
		}
	})
}

// The member goes on where it stood if there is no snapshot to be had.
func TestMemberGoesOnWithoutASnapshot(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		ctx, cancel := context.WithCancel(context.Background())
		nodes[0].weather.whenTaken(func() {
			run.say("two")
			cancel()
			synctest.Wait()
		})
		nodes[0].e.Resume(ctx, a, encode(map[string]any{"session_id": "s1"}))
		a.came("One two")
		run.end(engine.Outcome{Output: "One two"})
		a.waitFor(0, "run.completed")
	})
}

// Contract 5.1.6: a member that shows another run is told nothing of an old message.
func TestOldMessageSentAgainByAMember(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		run.end(engine.Outcome{Output: "One "})
		a.waitFor(0, "run.completed")
		b := nodes[0].client("alice")
		b.run("s1", "q2", "two")
		second := nodes[0].next()
		second.start(t, "r2")
		b.waitFor(0, "run.started")
		at := len(b.seen(0))
		b.run("s1", "q1", "one")
		if got := names(b.seen(at)); got != "" {
			t.Errorf("told in the middle of another run: %s", got)
		}
		b.run("s1", "q3", "three")
		b.waitFor(at, "run.queued")
		nodes[0].e.CancelQueued(context.Background(), a, encode(map[string]any{"session_id": "s1", "queue_id": "q3"}))
		_, at = b.wait(at, "the emptied queue", func(e received) bool { return e.name == "run.queued" && e.num("queue_length") == 0 })
		b.run("s1", "q3", "three")
		if queued, _ := b.waitFor(at, "run.queued"); queued.num("queue_length") != 0 {
			t.Errorf("cancelled message sent again: %v", queued.data)
		}
		second.end(engine.Outcome{Output: "2"})
	})
}

// Design 10: a run that begins while the store is away waits for it; it does not fail.
func TestRunThatBeginsDuringAnOutageWaits(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a, first := begin(t, own)
		a.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		own.weather.afterFinish(func() { own.weather.set(down) })
		first.end(engine.Outcome{Output: "One "})
		time.Sleep(8 * time.Second)
		own.weather.set(clear)
		second := own.next()
		if n := len(second.turn.History); n != 2 {
			t.Errorf("%d messages of history", n)
		}
		second.start(t, "r2")
		second.end(engine.Outcome{Output: "2"})
		a.wait(0, "second ending", func(e received) bool { return e.name == "run.completed" && e.str("output") == "2" })
		if strings.Contains(names(a.seen(0)), "run.failed") {
			t.Error(names(a.seen(0)))
		}
	})
}

// H15, contract 5.5: a stop asked for on another node reaches a living owner by the
// log, with hints or without.
func TestStopOnAnotherNode(t *testing.T) {
	for name, within := range map[string]time.Duration{"hint": 0, "no hint": store.LeaseTTL / 3} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
				a, run := begin(t, nodes[0])
				b := nodes[1].client("alice")
				b.resume("s1")
				if within > 0 {
					nodes[0].weather.mute()
				}
				b.abort("s1")
				asked := time.Now()
				<-run.ctx.Done()
				if took := time.Since(asked); took > within {
					t.Errorf("stopped after %v", took)
				}
				for _, w := range []*client{a, b} {
					_, at := w.waitFor(0, "abort.started")
					w.waitFor(at, "abort.completed")
					if w.endings() != 1 {
						t.Error(names(w.seen(0)))
					}
				}
			})
		})
	}
}

// H15, CR-68: a stop of a run whose node is dead ends within the lease and two seconds,
// and the queue goes on.
func TestStopWithADeadOwner(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		a, _ := begin(t, nodes[0])
		a.run("s1", "q2", "two")
		a.waitFor(0, "run.queued")
		b := nodes[1].client("alice")
		b.resume("s1")
		nodes[0].kill()
		b.abort("s1")
		asked := time.Now()
		b.waitFor(0, "abort.completed")
		if took := time.Since(asked); took > store.LeaseTTL+2*time.Second {
			t.Errorf("ended after %v", took)
		}
		nodes[1].next().end(engine.Outcome{Output: "2"})
		b.waitFor(0, "run.completed")
	})
}

// H8, H30: the run of a dead node is taken over within the lease and two seconds,
// also without anybody watching and right behind its acceptance; one that was never
// sent runs again, with one user row.
func TestTakeOverInTime(t *testing.T) {
	for name, watched := range map[string]bool{"watched": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
				a := nodes[0].client("alice")
				a.run("s1", "q1", "one")
				nodes[0].next()
				b := nodes[1].client("alice")
				if watched {
					b.resume("s1")
				}
				synctest.Wait()
				nodes[0].kill()
				died := time.Now()
				run := nodes[1].next()
				if took := time.Since(died); took > store.LeaseTTL+2*time.Second {
					t.Errorf("taken over after %v", took)
				}
				run.start(t, "r1")
				run.end(engine.Outcome{Output: "1"})
				got := b.resume("s1")
				for ; got.data["isWorking"] == true; got = b.resume("s1") {
					b.waitFor(0, "run.completed")
				}
				if shown(got) != "one|1|" {
					t.Errorf("kept: %q", shown(got))
				}
			})
		})
	}
}

// A message is cancelled, and a session deleted, on a node that does not own the run.
func TestCancelAndDeleteOnAnotherNode(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, c *cluster, nodes []*node) {
		a, run := begin(t, nodes[0])
		a.run("s1", "q2", "two")
		_, at := a.waitFor(0, "run.queued")
		b := nodes[1].client("alice")
		b.resume("s1")
		nodes[1].e.CancelQueued(context.Background(), b, encode(map[string]any{"session_id": "s1", "queue_id": "q2"}))
		if queued, _ := a.waitFor(at, "run.queued"); queued.num("queue_length") != 0 {
			t.Error(queued.data)
		}
		alice := &auth.Principal{User: "alice", Profiles: []string{"default"}}
		if err := nodes[2].e.DeleteSession(context.Background(), alice, "s1"); err != nil {
			t.Fatal(err)
		}
		<-run.ctx.Done()
		for _, w := range []*client{a, b} {
			w.waitFor(0, "session.deleted")
			if w.endings() != 1 {
				t.Error(names(w.seen(0)))
			}
		}
	})
}

// The same with a dead owner: whoever deletes takes over.
func TestDeleteWithADeadOwner(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		begin(t, nodes[0])
		nodes[0].kill()
		alice := &auth.Principal{User: "alice", Profiles: []string{"default"}}
		if err := nodes[1].e.DeleteSession(context.Background(), alice, "s1"); err != nil {
			t.Fatal(err)
		}
		if c.head("s1").Exists() {
			t.Error("still there")
		}
	})
}

// Contract 5.6.6: what no node can carry is offered to others and fails after ten
// seconds with the reason; what another node can carry waits for it.
func TestMessageThatNobodyCanCarry(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		var told []string
		special := c.start(func(cfg *engine.Config, n *node) {
			cfg.Executors = func(string) (string, engine.Executor, error) { return "bridge", n.x, nil }
		})
		plain := c.start(func(cfg *engine.Config, n *node) {
			cfg.Notify = func(_ context.Context, n store.Notice, class string) {
				told = append(told, n.Kind+" "+n.Subject+" "+class)
			}
		})
		nodes[0].kill()
		time.Sleep(6 * time.Second)
		b := plain.client("alice")
		b.resume("s1")
		a := special.client("alice")
		a.run("s1", "q1", "one")
		run := special.next()
		run.start(t, "r1")
		run.say("One ")
		b.came("One ")
		special.kill()
		time.Sleep(store.LeaseTTL)
		failed, _ := b.waitFor(0, "run.failed")
		if !strings.Contains(failed.str("error"), "No server is able") || failed.str("output") != "One " {
			t.Errorf("%v", failed.data)
		}
		if len(told) == 0 || told[0] != "work s1 bridge" {
			t.Errorf("told %q", told)
		}
	})
}

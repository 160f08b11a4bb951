package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// attached is an executor whose runs another node can go on with.
type attached struct {
	*script
	unharmed bool
	sofar    chan string
}

func (x *attached) CanReattach(string) (ok, unharmed bool) { return true, x.unharmed }

func (x *attached) Reattach(ctx context.Context, turn engine.Turn, _, sofar string, sink engine.Sink) (engine.Outcome, bool) {
	x.sofar <- sofar
	return x.script.Run(ctx, turn, sink), true
}

// Contract 5.7: a node that drains hands over what another one can go on with, without
// waiting for the lease; what an executor would be harmed by is handed over only when
// the time is over. Nobody sees an ending for it.
func TestDrainHandsOver(t *testing.T) {
	for name, unharmed := range map[string]bool{"at once": true, "at the end": false} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, 0, func(t *testing.T, c *cluster, _ []*node) {
				sofar := make(chan string, 1)
				for range 2 {
					c.start(func(cfg *engine.Config, n *node) {
						x := &attached{n.x, unharmed, sofar}
						cfg.Executors = func(string) (string, engine.Executor, error) { return "gateway", x, nil }
					})
				}
				time.Sleep(6 * time.Second)
				own, other := c.nodes[0], c.nodes[1]
				_, run := begin(t, own)
				b := other.client("alice")
				b.resume("s1")
				grace := 8 * time.Second
				ctx, cancel := context.WithTimeout(context.Background(), grace)
				defer cancel()
				began := time.Now()
				go own.e.Drain(ctx)
				<-run.ctx.Done()
				stopped := time.Since(began)
				if context.Cause(run.ctx) != engine.ErrDetached || unharmed != (stopped < time.Second) {
					t.Errorf("ended by %v after %v", context.Cause(run.ctx), stopped)
				}
				if got := <-sofar; got != "One " {
					t.Errorf("picked up behind %q", got)
				}
				if took := time.Since(began) - stopped; took > 2*time.Second {
					t.Errorf("picked up after %v", took)
				}
				next := other.next()
				next.say("two")
				next.end(engine.Outcome{Output: "One two"})
				b.waitFor(0, "run.completed")
				if b.endings() != 1 || b.text(0) != "two" {
					t.Errorf("%d endings, text %q", b.endings(), b.text(0))
				}
			})
		})
	}
}

// A run that waits for its place was never sent: another node runs it.
func TestDrainHandsOverWhatWasNotSent(t *testing.T) {
	slotted(t, 2, func(t *testing.T, c *cluster, nodes []*node) {
		_, first := begin(t, nodes[1])
		a := nodes[0].client("alice")
		a.run("s2", "q1", "second")
		a.waitFor(0, "agent.event")
		nodes[0].e.Drain(context.Background())
		synctest.Wait()
		first.end(engine.Outcome{Output: "One "})
		second := nodes[1].next()
		if second.turn.Input.Text != "second" {
			t.Errorf("ran %q", second.turn.Input.Text)
		}
		second.end(engine.Outcome{Output: "2"})
		a.waitFor(0, "run.completed")
		if a.endings() != 1 {
			t.Error(names(a.seen(0)))
		}
	})
}

// Contract 5.7.3: a node that drains tries its waiting withdrawals once more.
func TestDrainTriesWithdrawalsAgain(t *testing.T) {
	inCluster(t, 1, func(t *testing.T, c *cluster, nodes []*node) {
		own := nodes[0]
		a := own.client("alice")
		own.weather.submits(func() { own.weather.set(down) })
		a.run("s1", "q1", "one")
		a.waitFor(0, "run.failed")
		time.Sleep(10 * time.Second) // less than a lease: nobody takes it over
		own.weather.set(clear)
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		own.e.Drain(ctx)
		synctest.Wait()
		if c.head("s1").Run.Run != "" {
			t.Error("not withdrawn")
		}
	})
}

package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// RED-03, 5.8: a member that is behind when the store does not answer waits for it as
// everybody else does; it is not sent away.
func TestMemberBehindWaitsForTheStore(t *testing.T) {
	inCluster(t, 2, func(t *testing.T, _ *cluster, nodes []*node) {
		own, other := nodes[0], nodes[1]
		_, run := begin(t, own)
		b := other.client("alice")
		b.resume("s1")
		b.setFull(true)
		run.say("two ")
		synctest.Wait()
		other.weather.set(down)
		b.setFull(false)
		time.Sleep(5 * time.Second)
		if b.closedFor() != "" {
			t.Fatalf("closed: %s", b.closedFor())
		}
		other.weather.set(clear)
		b.came("two ")
		run.end(engine.Outcome{Output: "One two "})
		b.waitFor(0, "run.completed")
		if b.closedFor() != "" || b.text(0) != "two " {
			t.Errorf("closed %q, text %q", b.closedFor(), b.text(0))
		}
	})
}

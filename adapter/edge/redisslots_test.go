//go:build unix

package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// Spec gateway 4.7, T11: the limit of a gateway is one for all nodes and profiles
// that use it; what is more waits, in order, and is told so.
func TestMaxRunsOverNodes(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	a := start(t, func(s *Settings) {
		sharing(r)(s)
		for profile, g := range s.Gateways {
			g.MaxRuns = 1
			s.Gateways[profile] = g
		}
	})
	b := a.startNode(nil)
	script := a.script("first", "second", "third")
	ca, cb := a.client(aliceToken), b.client(aliceToken)
	ca.run("s1", "q1", "first")
	script.stream(ca, "first", "1")
	for place, waits := range []struct{ sid, input, profile string }{{"s2", "second", "work"}, {"s3", "third", "default"}} {
		cb.run(waits.sid, "q-"+waits.sid, waits.input, "profile", waits.profile)
		told := cb.next(chatrun.EventAgentEvent)
		if want := fmt.Sprintf("(place %d)", place+1); told.text("session_id") != waits.sid || !strings.Contains(told.text("text"), want) {
			t.Errorf("told %v, want %s", told.payload, want)
		}
	}
	if got := len(a.gw.Turns()); got != 1 {
		t.Fatalf("%d turns at the gateway, want 1", got)
	}
	script.finish(ca, "first")
	script.stream(cb, "second", "2")
	script.finish(cb, "second")
	script.stream(cb, "third", "3")
	script.finish(cb, "third")
}

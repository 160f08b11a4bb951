//go:build unix

package edge

import (
	"context"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// R9: a node that goes away hands its work over. Its run ends within the window, in
// any case; the message that waits is begun by the other node, whose clients see
// all of it, and the whole exit takes no longer than the window.
func TestDrainHandsOverR9(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"the run ends in time": true, "the run is cut": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redisserver.Start(t)
			a := start(t, sharing(r))
			b := a.startNode(nil)
			script := a.script("long", "waits")
			ca, idle, cb := a.client(aliceToken), a.client(bobToken), b.client(aliceToken)
			ca.run("s1", "q1", "long")
			script.stream(ca, "long", "begin")
			cb.resume("s1")
			ca.run("s1", "q2", "waits")
			ca.next("run.queued")
			eventually(t, "the other node takes work", func() bool { return len(liveNodes(t, b)) == 2 })

			window, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			defer cancel()
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				a.core.Drain(window)
				if window.Err() != nil {
					t.Error("the window was used up")
				}
			}()
			idle.awaitClose()
			if ends {
				script.finish(cb, "long")
			} else if failed := cb.next("run.failed"); failed.text("session_id") != "s1" {
				t.Errorf("run.failed %v", failed.payload)
			}
			script.stream(cb, "waits", "answer")
			script.finish(cb, "waits")
			ca.awaitClose()
			<-drained
			if live := liveNodes(t, b); len(live) != 1 || live[0] != b.core.node {
				t.Errorf("living nodes %v", live)
			}
			messages := cb.resume("s1").payload["messages"].([]any)
			if len(messages) != 4 {
				t.Errorf("messages %v", messages)
			}
		})
	}
}

func liveNodes(t *testing.T, e *env) []string {
	t.Helper()
	nodes, err := e.core.backend.Load().shared.LiveNodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

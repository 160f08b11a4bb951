//go:build unix

package scaleout

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// Stop, cancel and the session's own operations work on a node that does not carry
// the run out.
func TestControlFromTheOtherNode(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own, far := busy(t, c)
	cancel(far, "s1", "q2")
	own.UntilThat("one waiting message", queueIs(1))
	far.UntilThat("one waiting message", queueIs(1))

	far.Abort("s1")
	for _, w := range []*chat.Client{own, far} {
		seen := w.UntilThat("the end of the next run", ends("s1"))
		if len(chat.Named(seen, "abort.started")) != 1 || len(chat.Named(seen, "abort.completed")) != 1 {
			t.Errorf("the stop:\n%s", chat.List(seen))
		}
		if !strings.Contains(chat.TextOf(seen), "echo: third") {
			t.Errorf("the next run:\n%s", chat.List(seen))
		}
	}
	c.await("the upstream turn is over", func(s fakegateway.State) bool { return s.Active == 0 })
	c.once("[[hold]] first", "third")
	if n := c.calls()["second"]; n != 0 {
		t.Errorf("the cancelled message was sent %d times", n)
	}
	sessions(t, c.nodes[1], own)
}

// sessions lists, reads, renames and deletes s1 through a node; own watches it on
// another one.
func sessions(t *testing.T, n *node, own *chat.Client) {
	t.Helper()
	if status, body := n.ask(http.MethodGet, "/chat-run/sessions", ""); status != http.StatusOK || !strings.Contains(body, `"s1"`) {
		t.Errorf("list: %d %.300s", status, body)
	}
	if status, body := n.ask(http.MethodGet, "/chat-run/sessions/s1/messages", ""); status != http.StatusOK || !strings.Contains(body, "[[hold]] first") {
		t.Errorf("messages: %d %.300s", status, body)
	}
	if status, body := n.ask(http.MethodPatch, "/chat-run/sessions/s1", `{"title":"Renamed"}`); status != http.StatusOK {
		t.Errorf("rename: %d %s", status, body)
	}
	if own != nil {
		own.UntilThat("the new title", func(e chat.Event) bool { return e.Text("title") == "Renamed" })
	}
	if status, body := n.ask(http.MethodDelete, "/chat-run/sessions/s1", ""); status != http.StatusNoContent {
		t.Errorf("delete: %d %s", status, body)
	}
	if own != nil {
		own.UntilThat("the deletion", isNamed("session.deleted"))
	}
	if status, _ := n.ask(http.MethodGet, "/chat-run/sessions/s1", ""); status != http.StatusNotFound {
		t.Errorf("after the deletion: %d", status)
	}
}

// A session that works is deleted through the other node: the run is stopped, both
// windows are told.
func TestDeleteARunningSessionFromTheOtherNode(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	own, far := busy(t, c)
	if status, body := c.nodes[1].ask(http.MethodDelete, "/chat-run/sessions/s1", ""); status != http.StatusNoContent {
		t.Fatalf("delete: %d %s", status, body)
	}
	for _, w := range []*chat.Client{own, far} {
		w.UntilThat("the deletion", isNamed("session.deleted"))
	}
	c.await("the upstream turn is over", func(s fakegateway.State) bool { return s.Active == 0 })
	if calls := c.calls(); calls["second"]+calls["third"] != 0 {
		t.Errorf("sent after the deletion: %v", calls)
	}
}

// RES-03: while the owner is dead or hangs, the queue can be changed at once, a stop
// is answered when the lease has ended, and the session can be read and deleted.
func TestControlWithoutTheOwner(t *testing.T) {
	for how, stop := range map[string]func(*node){"killed": func(n *node) { n.Kill() }, "paused": (*node).pause} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{})
			_, far := busy(t, c)
			stop(c.nodes[0])
			since := time.Now()

			cancel(far, "s1", "q2")
			far.UntilThat("one waiting message", queueIs(1))
			if status, body := c.nodes[1].ask(http.MethodGet, "/chat-run/sessions/s1", ""); status != http.StatusOK {
				t.Errorf("read: %d %s", status, body)
			}
			far.Abort("s1")
			far.UntilThat("the stop is noted", isNamed("abort.started"))
			seen := far.UntilThat("the stop", isNamed("abort.completed"))
			within(t, "stopped", since, seen[len(seen)-1].At, takeover)
			rest := far.UntilThat("the next run", ends("s1"))
			if !strings.Contains(chat.TextOf(rest), "echo: third") {
				t.Errorf("the next run:\n%s", chat.List(rest))
			}
			rows := settle(t, c.nodes[1], "s1")
			if len(rows) != 4 || rows[1] != "assistant: held " || rows[3] != "assistant: echo: third" {
				t.Errorf("transcript %q", rows)
			}
			if how == "paused" {
				c.nodes[0].wake()
				c.nodes[0].ready()
				if again := settle(t, c.nodes[0], "s1"); strings.Join(again, "|") != strings.Join(rows, "|") {
					t.Errorf("after the pause: %q", again)
				}
			}
			c.once("[[hold]] first", "third")
			sessions(t, c.nodes[1], nil)
		})
	}
}

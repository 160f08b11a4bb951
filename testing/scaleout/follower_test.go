//go:build unix

package scaleout

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

// follower is a front-end's view of one session with one answer: it applies
// snapshots and deltas, and connects again when it is told to.
type follower struct {
	c       *cluster
	session string
	nodes   []*node // where it connects, in turn
	next    int

	client    *chat.Client
	before    wire.Identity
	text      string // of the last answer
	working   bool
	endings   []string
	snapshots int
	lost      int
	faults    []string
}

func (c *cluster) follow(session string, nodes ...*node) *follower {
	f := &follower{c: c, session: session, nodes: nodes}
	f.connect()
	return f
}

// connect opens a connection to the next node that answers.
func (f *follower) connect() {
	f.c.t.Helper()
	eventually(f.c.t, "a connection", func() bool {
		n := f.nodes[f.next%len(f.nodes)]
		f.next++
		client, err := chat.TryOpen(f.c.t, chat.Options{URLs: []string{n.URL}, Token: aliceToken, Before: f.before})
		if err != nil {
			return false
		}
		f.client = client
		return true
	})
	if !f.client.Recovered() {
		f.client.Emit("resume", map[string]any{"session_id": f.session})
	}
}

// until applies events until the condition holds.
func (f *follower) until(what string, done func() bool) {
	f.c.t.Helper()
	deadline := time.After(patience)
	for !done() {
		event, ok := f.client.TryNext(deadline)
		switch {
		case ok:
			f.apply(event)
		case f.client.Ended():
			f.lost++
			f.before = f.client.Identity()
			f.connect()
		default:
			f.c.t.Fatalf("%s: waited in vain for %s; text …%q, working %v, endings %v", f.session, what, tail(f.text), f.working, f.endings)
		}
	}
}

// drop loses the connection as a bad network does; the next one is fresh.
func (f *follower) drop() {
	f.client.Close()
	for _, e := range f.client.Rest() {
		f.apply(e)
	}
	f.before = wire.Identity{}
	f.connect()
}

func (f *follower) apply(e chat.Event) {
	if e.Text("session_id") != f.session {
		f.faults = append(f.faults, "of another session: "+e.Raw)
		return
	}
	switch e.Name {
	case "resumed":
		f.snapshots++
		f.working = e.Payload["isWorking"] == true
		if text, ok := answerOf(e); ok {
			if !strings.HasPrefix(text, f.text) && f.text != "" {
				f.faults = append(f.faults, "a snapshot takes text away: …"+tail(f.text)+" became …"+tail(text))
			}
			f.text = text
		}
	case "run.started":
		f.working = true
	case "message.delta":
		f.text += e.Text("delta")
	case "run.completed", "run.failed":
		f.working = false
		f.endings = append(f.endings, e.Name)
	}
}

// answerOf is the last answer in a snapshot, and what of it is not in its rows.
func answerOf(resumed chat.Event) (string, bool) {
	var r struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(resumed.Raw), &r); err != nil || len(r.Messages) == 0 {
		return "", false
	}
	last := r.Messages[len(r.Messages)-1]
	var text string
	if last.Role != "assistant" || json.Unmarshal(last.Content, &text) != nil {
		return "", false
	}
	return text, true
}

// check reports what a front-end would have shown wrongly.
func (f *follower) check(want string) {
	f.c.t.Helper()
	for _, fault := range f.faults {
		f.c.t.Errorf("%s: %s", f.session, fault)
	}
	if f.text != want {
		f.c.t.Errorf("%s: %d bytes of text, want %d: …%q", f.session, len(f.text), len(want), tail(f.text))
	}
	if len(f.endings) > 1 {
		f.c.t.Errorf("%s: %d endings", f.session, len(f.endings))
	}
	if f.working {
		f.c.t.Errorf("%s: shown as working", f.session)
	}
}

// Package chat is a small chat-run client for end-to-end tests in Go. Every wait
// has a deadline and fails the test with what came until then.
package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const (
	// patience bounds every wait; a real agent on a busy machine is slow.
	patience  = 2 * time.Minute
	maxEvents = 100_000
)

// Event is one event as it came.
type Event struct {
	Name    string
	Payload map[string]any
	Raw     string    // the payload's bytes
	At      time.Time // when it came
}

// Text returns a field that is a string, or "".
func (e Event) Text(field string) string {
	s, _ := e.Payload[field].(string)
	return s
}

// Number returns a field that is a number, or -1.
func (e Event) Number(field string) int {
	if n, ok := e.Payload[field].(float64); ok {
		return int(n)
	}
	return -1
}

// Options say where a client connects, and how.
type Options struct {
	// URLs of nodes. A connection is made to the first; with polling each request
	// goes to the next one.
	URLs   []string
	Token  string
	Kind   wire.Kind     // WebSocket if empty
	Before wire.Identity // of a connection that is to be continued
}

// Client is one connection with /chat-run joined. Its methods, but Close, are for
// the goroutine of the test.
type Client struct {
	t      testing.TB
	socket *wire.Socket
	events chan Event
	closed chan struct{}
	err    error // why it ended; read after closed
}

// Dial connects over WebSocket and signs in; the end of the test closes the
// connection.
func Dial(t testing.TB, edgeURL, token string) *Client {
	t.Helper()
	return Open(t, Options{URLs: []string{edgeURL}, Token: token})
}

// Open is Dial with a choice.
func Open(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := TryOpen(t, o)
	if err != nil {
		t.Fatalf("connect to the edge: %v", err)
	}
	return c
}

// TryOpen is Open where it may fail.
func TryOpen(t testing.TB, o Options) (*Client, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var next atomic.Uint32 // requests are sent and received by two goroutines
	node := func() string { return o.URLs[int(next.Add(1)-1)%len(o.URLs)] }
	if o.Kind == wire.WebSocket || o.Kind == "" {
		node = func() string { return o.URLs[0] }
	}
	socket, err := wire.Open(ctx, wire.Dialer{Kind: o.Kind, Node: node}, o.Token, o.Before)
	if err != nil {
		return nil, err
	}
	c := &Client{t: t, socket: socket, events: make(chan Event, maxEvents), closed: make(chan struct{})}
	go c.read()
	t.Cleanup(c.Close)
	return c, nil
}

// read ends with the connection.
func (c *Client) read() {
	defer close(c.closed)
	for {
		e, err := c.socket.Next()
		if err != nil {
			c.err = err
			return
		}
		event := Event{Name: e.Name, Raw: string(e.Payload), At: time.Now()}
		if err := json.Unmarshal(e.Payload, &event.Payload); err != nil {
			c.err = fmt.Errorf("payload of %s: %w", e.Name, err)
			return
		}
		c.events <- event
	}
}

// Identity is what continues this connection elsewhere.
func (c *Client) Identity() wire.Identity { return c.socket.Identity() }

// Recovered says that the server continued an earlier connection.
func (c *Client) Recovered() bool { return c.socket.Recovered }

// Close cuts the connection.
func (c *Client) Close() {
	c.socket.Cut()
	<-c.closed
}

// Closed waits until the other side has ended the connection.
func (c *Client) Closed() {
	c.t.Helper()
	select {
	case <-c.closed:
	case <-time.After(patience):
		c.t.Fatal("the connection stays open")
	}
}

// Next returns the next event, whatever it is.
func (c *Client) Next() Event {
	c.t.Helper()
	select {
	case event := <-c.events:
		return event
	default:
	}
	select {
	case event := <-c.events:
		return event
	case <-c.closed:
		select {
		case event := <-c.events: // it came before the end
			return event
		default:
		}
		c.t.Fatalf("the connection is closed: %v", c.err)
	case <-time.After(patience):
		c.t.Fatalf("nothing came for %s", patience)
	}
	return Event{}
}

// TryNext returns the next event; false if the connection has ended or the time is
// over.
func (c *Client) TryNext(deadline <-chan time.Time) (Event, bool) {
	select {
	case event := <-c.events:
		return event, true
	default:
	}
	select {
	case event := <-c.events:
		return event, true
	case <-c.closed:
		select {
		case event := <-c.events:
			return event, true
		default:
			return Event{}, false
		}
	case <-deadline:
		return Event{}, false
	}
}

// Ended reports whether the connection has ended and all its events were returned.
func (c *Client) Ended() bool {
	select {
	case <-c.closed:
		return len(c.events) == 0
	default:
		return false
	}
}

// Rest returns the events that have come and were not looked at, without waiting.
func (c *Client) Rest() []Event {
	var all []Event
	for {
		select {
		case event := <-c.events:
			all = append(all, event)
		default:
			return all
		}
	}
}

// Until collects events up to and including the first with one of the names.
func (c *Client) Until(names ...string) []Event {
	c.t.Helper()
	return c.UntilThat(strings.Join(names, " or "), func(e Event) bool {
		for _, name := range names {
			if e.Name == name {
				return true
			}
		}
		return false
	})
}

// UntilThat collects events up to and including the first that fits.
func (c *Client) UntilThat(what string, fits func(Event) bool) []Event {
	c.t.Helper()
	var all []Event
	ok := false
	defer func() {
		if !ok {
			c.t.Logf("waited for %s, got:\n%s", what, List(all[max(0, len(all)-maxListed):]))
		}
	}()
	for {
		event := c.Next()
		all = append(all, event)
		if fits(event) {
			ok = true
			return all
		}
	}
}

// maxListed bounds what a failed wait shows.
const maxListed = 40

// Emit sends an event; a lost connection shows at the next read.
func (c *Client) Emit(name string, payload any) {
	_ = c.socket.Emit(name, payload)
}

// Run sends a user message; queueID is the client's id of it.
func (c *Client) Run(session, queueID, input string) {
	c.t.Helper()
	c.Emit("run", map[string]any{"session_id": session, "queue_id": queueID, "input": input, "profile": "default"})
}

// Abort stops what runs.
func (c *Client) Abort(session string) {
	c.t.Helper()
	c.Emit("abort", map[string]any{"session_id": session})
}

// Resume joins a session and returns the answer; events before it are dropped.
func (c *Client) Resume(session string) Event {
	c.t.Helper()
	c.Emit("resume", map[string]any{"session_id": session})
	all := c.UntilThat("resumed of "+session, func(e Event) bool { return e.Name == "resumed" && e.Text("session_id") == session })
	return all[len(all)-1]
}

// Rows returns role and text of the messages of a resumed event.
func Rows(resumed Event) []string {
	var rows []string
	messages, _ := resumed.Payload["messages"].([]any)
	for _, message := range messages {
		row, _ := message.(map[string]any)
		rows = append(rows, fmt.Sprintf("%v: %v", row["role"], row["content"]))
	}
	return rows
}

// TextOf joins the deltas of the events.
func TextOf(events []Event) string {
	var text strings.Builder
	for _, event := range events {
		if event.Name == "message.delta" {
			text.WriteString(event.Text("delta"))
		}
	}
	return text.String()
}

// Named returns the events of that name.
func Named(events []Event, name string) []Event {
	var named []Event
	for _, event := range events {
		if event.Name == name {
			named = append(named, event)
		}
	}
	return named
}

// List writes events for a failure message.
func List(events []Event) string {
	var text strings.Builder
	for _, event := range events {
		fmt.Fprintf(&text, "  %s %s\n", event.Name, event.Raw)
	}
	return text.String()
}

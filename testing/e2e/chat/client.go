// Package chat is a small chat-run client over WebSocket for end-to-end tests in
// Go. Every wait has a deadline and fails the test with what came until then.
package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

const (
	// patience bounds every wait; a real agent on a busy machine is slow.
	patience  = 2 * time.Minute
	maxEvents = 100_000
	namespace = "/chat-run,"
)

// Event is one event as it came.
type Event struct {
	Name    string
	Payload map[string]any
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

// Client is one connection with /chat-run joined. Its methods, but Close, are for
// the goroutine of the test.
type Client struct {
	t       testing.TB
	conn    net.Conn
	writing sync.Mutex
	packets chan string // Socket.IO packets of the namespace
	closed  chan struct{}
}

// Dial connects and signs in; the end of the test closes the connection.
func Dial(t testing.TB, edgeURL, token string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, early, _, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(edgeURL, "http")+"/socket.io/?EIO=4&transport=websocket")
	if err != nil {
		t.Fatalf("connect to the edge: %v", err)
	}
	var reader io.Reader = conn
	if early != nil {
		reader = early
	}
	c := &Client{t: t, conn: conn, packets: make(chan string, maxEvents), closed: make(chan struct{})}
	go c.read(bufio.NewReader(reader))
	t.Cleanup(c.Close)
	auth, err := json.Marshal(map[string]string{"token": token})
	if err != nil {
		t.Fatal(err)
	}
	c.write("40" + namespace + string(auth))
	if packet := c.packet(); !strings.HasPrefix(packet, "0"+namespace) {
		t.Fatalf("signing in was answered with %q", packet)
	}
	return c
}

// read ends with the connection.
func (c *Client) read(r io.Reader) {
	defer close(c.closed)
	stream := struct {
		io.Reader
		io.Writer
	}{r, c.conn}
	for {
		data, err := wsutil.ReadServerText(stream)
		if err != nil {
			return
		}
		switch packet := string(data); {
		case packet == "2":
			c.write("3")
		case strings.HasPrefix(packet, "4"):
			c.packets <- packet[1:]
		}
	}
}

// write sends one Engine.IO packet; a lost connection shows at the next read.
func (c *Client) write(packet string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = wsutil.WriteClientText(c.conn, []byte(packet))
}

// Close cuts the connection.
func (c *Client) Close() {
	_ = c.conn.Close()
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

func (c *Client) packet() string {
	c.t.Helper()
	select {
	case packet := <-c.packets:
		return packet
	default:
	}
	select {
	case packet := <-c.packets:
		return packet
	case <-c.closed:
		c.t.Fatal("the connection is closed")
	case <-time.After(patience):
		c.t.Fatalf("nothing came for %s", patience)
	}
	return ""
}

// Next returns the next event, whatever it is.
func (c *Client) Next() Event {
	c.t.Helper()
	text, ok := strings.CutPrefix(c.packet(), "2"+namespace)
	if !ok {
		c.t.Fatalf("got a packet that is no event: %q", text)
	}
	var args []json.RawMessage
	var event Event
	if err := json.Unmarshal([]byte(text), &args); err != nil || len(args) < 2 {
		c.t.Fatalf("got a malformed event: %q, %v", text, err)
	}
	if err := json.Unmarshal(args[0], &event.Name); err != nil {
		c.t.Fatalf("event name in %q: %v", text, err)
	}
	if err := json.Unmarshal(args[1], &event.Payload); err != nil {
		c.t.Fatalf("payload in %q: %v", text, err)
	}
	return event
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
	defer func() {
		if c.t.Failed() {
			c.t.Logf("waited for %s, got:\n%s", what, List(all))
		}
	}()
	for {
		event := c.Next()
		all = append(all, event)
		if fits(event) {
			return all
		}
	}
}

// Emit sends an event.
func (c *Client) Emit(name string, payload any) {
	c.t.Helper()
	encoded, err := json.Marshal([]any{name, payload})
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("42" + namespace + string(encoded))
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
		payload, _ := json.Marshal(event.Payload)
		fmt.Fprintf(&text, "  %s %s\n", event.Name, payload)
	}
	return text.String()
}

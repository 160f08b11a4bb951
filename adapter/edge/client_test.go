package edge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

// patience bounds every wait of the tests; nothing should ever take as long.
const patience = 20 * time.Second

// received is one event as it came.
type received struct {
	name    string
	payload map[string]any
	offset  string // trailing argument, empty if there was none
}

func (r received) text(field string) string {
	s, _ := r.payload[field].(string)
	return s
}

// client is a Socket.IO client over WebSocket, one namespace at a time.
type client struct {
	t    testing.TB
	conn net.Conn
	open string // content of the Engine.IO open packet

	writing sync.Mutex
	events  chan received
	control chan string // Socket.IO packets that are no events
	pings   chan struct{}
	mute    chan struct{} // closed: pings are not answered
	closed  chan struct{}

	sid, pid, offset string
	markers          int
}

// dial opens a connection; query is appended to the handshake's.
func dial(t testing.TB, server, query string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	address := "ws" + strings.TrimPrefix(server, "http") + "/socket.io/?EIO=4&transport=websocket" + query
	conn, buffered, _, err := ws.Dial(ctx, address)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	c := &client{
		t: t, conn: conn, events: make(chan received, 10_000), control: make(chan string, 100),
		pings: make(chan struct{}, 10_000), mute: make(chan struct{}), closed: make(chan struct{}),
	}
	var r io.Reader = conn
	if buffered != nil {
		r = buffered
	}
	first, err := wsutil.ReadServerText(readWriter{r, conn})
	if err != nil || len(first) == 0 || first[0] != '0' {
		t.Fatalf("open packet %q, %v", first, err)
	}
	c.open = string(first[1:])
	go c.read(bufio.NewReader(r))
	t.Cleanup(c.drop)
	return c
}

type readWriter struct {
	io.Reader
	io.Writer
}

func (c *client) read(r io.Reader) {
	defer close(c.closed)
	for {
		data, err := wsutil.ReadServerText(readWriter{r, c.conn})
		if err != nil {
			return
		}
		switch {
		case string(data) == "2":
			select {
			case <-c.mute:
			default:
				c.write("3")
			}
			c.pings <- struct{}{}
		case strings.HasPrefix(string(data), "42/chat-run,"):
			c.events <- parseEvent(data[len("42/chat-run,"):])
		case data[0] == '4':
			c.control <- string(data[1:])
		}
	}
}

func parseEvent(data []byte) received {
	var args []json.RawMessage
	var r received
	if json.Unmarshal(data, &args) != nil || len(args) == 0 {
		return received{name: "malformed: " + string(data)}
	}
	_ = json.Unmarshal(args[0], &r.name)
	if len(args) > 1 {
		_ = json.Unmarshal(args[1], &r.payload)
	}
	if len(args) > 2 {
		_ = json.Unmarshal(args[2], &r.offset)
	}
	return r
}

// write sends one Engine.IO packet; a closed connection shows elsewhere.
func (c *client) write(packet string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = wsutil.WriteClientText(c.conn, []byte(packet))
}

// drop cuts the network connection without a word.
func (c *client) drop() {
	_ = c.conn.Close()
	<-c.closed
}

// connect joins /chat-run and returns the error message, empty if it was admitted.
func (c *client) connect(auth map[string]any) string {
	c.t.Helper()
	payload, err := json.Marshal(auth)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("40/chat-run," + string(payload))
	packet := c.controlPacket()
	if message, refused := strings.CutPrefix(packet, "4/chat-run,"); refused {
		var body struct{ Message string }
		if err := json.Unmarshal([]byte(message), &body); err != nil {
			c.t.Fatalf("refusal %q: %v", packet, err)
		}
		return body.Message
	}
	var welcome struct{ SID, PID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(packet, "0/chat-run,")), &welcome); err != nil || welcome.SID == "" {
		c.t.Fatalf("connect reply %q, %v", packet, err)
	}
	c.sid, c.pid = welcome.SID, welcome.PID
	return ""
}

func (c *client) controlPacket() string {
	c.t.Helper()
	select {
	case packet := <-c.control:
		return packet
	case <-time.After(patience):
		c.t.Fatal("no answer to CONNECT")
	case <-c.closed:
		select {
		case packet := <-c.control:
			return packet
		default:
			c.t.Fatal("closed before the answer to CONNECT")
		}
	}
	return ""
}

// emit sends an event with its arguments as JSON text.
func (c *client) emit(event string, args ...string) {
	c.write("42/chat-run,[" + strings.Join(append([]string{`"` + event + `"`}, args...), ",") + "]")
}

// run sends a message.
func (c *client) run(sid, queueID, input string, more ...string) {
	fields := map[string]any{"session_id": sid, "queue_id": queueID, "input": input, "source": "api_server"}
	for i := 0; i+1 < len(more); i += 2 {
		fields[more[i]] = more[i+1]
	}
	payload, err := json.Marshal(fields)
	if err != nil {
		c.t.Fatal(err)
	}
	c.emit("run", string(payload))
}

func (c *client) resume(sid string) received {
	c.t.Helper()
	c.emit("resume", `{"session_id":"`+sid+`"}`)
	for {
		if r := c.next("resumed"); r.text("session_id") == sid {
			return r
		}
	}
}

var errClosed = errors.New("closed")

// take returns the next event, whatever it is.
func (c *client) take() (received, error) {
	select {
	case r := <-c.events:
		if r.offset != "" {
			c.offset = r.offset
		}
		return r, nil
	default:
	}
	select {
	case r := <-c.events:
		if r.offset != "" {
			c.offset = r.offset
		}
		return r, nil
	case <-c.closed:
		select {
		case r := <-c.events:
			if r.offset != "" {
				c.offset = r.offset
			}
			return r, nil
		default:
			return received{}, errClosed
		}
	case <-time.After(patience):
		return received{}, context.DeadlineExceeded
	}
}

// next skips to the next event of that name.
func (c *client) next(name string) received {
	c.t.Helper()
	all := c.until(name)
	return all[len(all)-1]
}

// until collects events up to and including one of that name.
func (c *client) until(name string) []received {
	c.t.Helper()
	var all []received
	for {
		r, err := c.take()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v after %v", name, err, all)
		}
		all = append(all, r)
		if r.name == name {
			return all
		}
	}
}

// quiet asserts that nothing was sent before the answer to an event that is
// always answered.
func (c *client) quiet() {
	c.t.Helper()
	for _, r := range c.untilMarker() {
		c.t.Errorf("unexpected %s %v", r.name, r.payload)
	}
}

// awaitClose waits until the server has closed the connection.
func (c *client) awaitClose() {
	c.t.Helper()
	select {
	case <-c.closed:
	case <-time.After(patience):
		c.t.Fatal("the connection was not closed")
	}
}

// confirmed waits until a ping was answered that was sent after all that has been
// received so far: the server may have queued one ping before it.
func (c *client) confirmed() {
	c.t.Helper()
	for len(c.pings) > 0 {
		<-c.pings
	}
	for range 3 {
		select {
		case <-c.pings:
		case <-c.closed:
			c.t.Fatal("closed while waiting for a ping")
		case <-time.After(patience):
			c.t.Fatal("no ping")
		}
	}
}

// again connects anew as the same client would after a loss.
func (c *client) again(server, token string) *client {
	c.t.Helper()
	n := dial(c.t, server, "")
	n.offset = c.offset
	if refused := n.connect(map[string]any{"token": token, "pid": c.pid, "offset": c.offset}); refused != "" {
		c.t.Fatalf("reconnect refused: %s", refused)
	}
	return n
}

// query escapes a profile for the handshake.
func query(profile string) string { return "&profile=" + url.QueryEscape(profile) }

// untilMarker collects what came before the answer to an event that is always
// answered.
func (c *client) untilMarker() []received {
	c.t.Helper()
	c.markers++
	marker := fmt.Sprintf("marker-%d", c.markers)
	c.emit("resume", `{"session_id":"`+marker+`"}`)
	var all []received
	for {
		r, err := c.take()
		if err != nil {
			c.t.Fatalf("waiting for the marker: %v", err)
		}
		if r.name == "resumed" && r.text("session_id") == marker {
			return all
		}
		all = append(all, r)
	}
}

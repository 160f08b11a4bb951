package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const (
	calmPace     = 300 * time.Millisecond
	patience     = 8 * time.Second // after which a message without any sign is sent again
	reconnectMax = 3 * time.Second
)

// Client is a browser window of a user: it watches sessions of its user, and does
// by its own random numbers what users and networks do.
type Client struct {
	name, user, token string
	sessions          []string // of its user; the first is the one it mostly writes to
	foreign           []string // sessions of others, which it must never see
	kind              wire.Kind
	roams             bool // each request of a polling client goes to another node
	nodes             *balancer

	rng     *rand.Rand
	journal *Journal
	know    *knowledge
	calm    <-chan struct{}

	sock    *wire.Socket
	node    string        // of sock
	reading chan struct{} // closed when the reader of sock has ended
	id      wire.Identity
	counter int
}

// Run works until ctx ends. Once the calm has begun it sends nothing new but
// keeps its connection and the fate of its messages in view.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if !c.connect(ctx) {
			c.sleep(ctx, c.between(100*time.Millisecond, time.Second))
			continue
		}
		c.work(ctx)
	}
	if c.sock != nil {
		c.drop("end of the test", c.sock.Cut)
	}
}

// Settled says that the client follows all its sessions and knows what has become
// of its messages.
func (c *Client) Settled() bool {
	return len(c.know.notJoined(c.sessions)) == 0 && c.know.open() == 0
}

func (c *Client) between(low, high time.Duration) time.Duration {
	return low + time.Duration(c.rng.Int64N(int64(high-low)))
}

func (c *Client) chance(percent int) bool { return c.rng.IntN(100) < percent }

func (c *Client) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (c *Client) isCalm() bool {
	select {
	case <-c.calm:
		return true
	default:
		return false
	}
}

// connect opens a connection to some node and takes up the sessions.
func (c *Client) connect(ctx context.Context) bool {
	node := c.nodes.pick(c.rng)
	d := wire.Dialer{Kind: c.kind, Node: func() string { return node.url }}
	if c.roams {
		node.name, d.Node = "*", c.nodes.next
	}
	s, err := wire.Open(ctx, d, c.token, c.id)
	if err != nil {
		c.journal.add(Entry{Node: node.name, What: EntryLost, Name: "no connection: " + err.Error()})
		return false
	}
	if !s.Recovered {
		c.know.lost()
	}
	c.sock, c.node, c.reading = s, node.name, make(chan struct{})
	c.journal.add(Entry{Node: c.node, What: EntryConnected, Recovered: s.Recovered})
	go c.read(s, c.node, c.reading)
	c.takeUp(s.Recovered)
	return true
}

// takeUp resumes what the connection does not follow, in full or, as some clients
// do, everything; then it sends again what may have been lost.
func (c *Client) takeUp(recovered bool) {
	sessions := c.know.notJoined(c.sessions)
	if recovered && c.chance(30) {
		sessions = c.sessions
	}
	for _, session := range sessions {
		c.resume(session)
	}
	for _, o := range c.know.unconfirmed(0, func() bool { return c.chance(50) }) {
		c.send(o.session, o.message)
	}
}

// read is the connection's reader; it ends with the connection.
func (c *Client) read(s *wire.Socket, node string, done chan struct{}) {
	defer close(done)
	for {
		r, err := s.Next()
		if err != nil {
			c.journal.add(Entry{Node: node, What: EntryLost, Name: err.Error()})
			s.Cut()
			return
		}
		var about struct {
			SessionID string `json:"session_id"`
		}
		if err := json.Unmarshal(r.Payload, &about); err != nil {
			about.SessionID = ""
		}
		c.journal.add(Entry{Node: node, What: EntryReceived, Name: r.Name, Session: about.SessionID, Payload: r.Payload})
		c.know.learn(r)
	}
}

// work acts until the connection is gone.
func (c *Client) work(ctx context.Context) {
	for {
		pause := c.between(150*time.Millisecond, 1500*time.Millisecond)
		if c.isCalm() {
			pause = calmPace
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-c.reading:
		case <-timer.C:
		}
		timer.Stop()
		select {
		case <-c.reading:
			c.id = c.sock.Identity()
			c.sock = nil
			return
		default:
		}
		if ctx.Err() != nil {
			return
		}
		c.sendAgain()
		if !c.isCalm() && c.act(ctx) {
			return
		}
	}
}

// sendAgain repeats what nobody has confirmed for long, behind a look at the
// session.
func (c *Client) sendAgain() {
	for _, o := range c.know.unconfirmed(patience, func() bool { return c.chance(50) }) {
		c.know.unanswered(o.message.QID)
		c.resume(o.session)
		c.send(o.session, o.message)
	}
	if c.isCalm() {
		return
	}
	for _, session := range c.know.notJoined(c.sessions) {
		if c.chance(5) {
			c.resume(session)
		}
	}
}

// drop ends the connection by end and waits for its reader.
func (c *Client) drop(why string, end func()) {
	c.journal.add(Entry{Node: c.node, What: EntrySent, Name: why})
	end()
	<-c.reading
	c.id = c.sock.Identity()
	c.sock = nil
}

func (c *Client) emit(name, session string, fields map[string]any) {
	fields["session_id"] = session
	encoded, err := json.Marshal(fields)
	if err != nil {
		panic(fmt.Sprintf("chaos: %s does not marshal: %v", name, err))
	}
	c.journal.add(Entry{Node: c.node, What: EntrySent, Name: name, Session: session, Payload: encoded})
	if err := c.sock.Emit(name, fields); err != nil {
		c.sock.Cut() // the reader notices
	}
}

func (c *Client) resume(session string) { c.emit("resume", session, map[string]any{}) }

func (c *Client) send(session string, m Message) {
	c.know.sending(session, m)
	c.emit("run", session, map[string]any{"queue_id": m.QID, "input": m.Input(), "profile": "default"})
}

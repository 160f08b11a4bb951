package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const (
	maxLoad  = 4 // waiting messages of a session before clients hold back
	maxBurst = 3
)

// action is something a client does now and then; it returns whether the
// connection is gone.
type action struct {
	weight int
	do     func(c *Client, ctx context.Context) bool
}

var actions = []action{
	{38, func(c *Client, _ context.Context) bool { c.write(1); return false }},
	{10, func(c *Client, _ context.Context) bool { c.write(2 + c.rng.IntN(maxBurst-1)); return false }},
	{9, (*Client).abort},
	{8, (*Client).cancel},
	{6, func(c *Client, _ context.Context) bool { c.resume(c.session()); return false }},
	{4, (*Client).repeat},
	{3, (*Client).probe},
	{10, (*Client).breakOff},
	{4, (*Client).sayGoodbye},
	{8, func(*Client, context.Context) bool { return false }},
}

func (c *Client) act(ctx context.Context) bool {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := c.rng.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			return a.do(c, ctx)
		}
	}
	return false
}

// session is mostly the client's own.
func (c *Client) session() string {
	if c.chance(70) {
		return c.sessions[0]
	}
	return c.sessions[c.rng.IntN(len(c.sessions))]
}

// write sends new messages, one right behind the other.
func (c *Client) write(n int) {
	session := c.session()
	for range n {
		if c.know.load(session) >= maxLoad {
			return
		}
		c.send(session, c.newMessage(session))
	}
}

func (c *Client) newMessage(session string) Message {
	c.counter++
	m := Message{
		QID:   fmt.Sprintf("%s.%s.%s.%d", c.user, session, c.name, c.counter),
		Words: 5 + c.rng.IntN(40), Pace: c.between(50*time.Millisecond, 150*time.Millisecond).Truncate(time.Millisecond),
	}
	switch n := c.rng.IntN(100); {
	case n < 50:
		m.Kind = KindText
	case n < 70:
		m.Kind = KindTools
	case n < 78:
		m.Kind = KindFailed
	case n < 84:
		m.Kind = KindCut
	case n < 92:
		m.Kind = KindRefused
	default:
		m.Kind = KindBusy
	}
	if c.chance(5) { // longer than a lease
		m.Words, m.Pace = 120, 150*time.Millisecond
	}
	return m
}

// abort stops what runs, sometimes with a double click.
func (c *Client) abort(context.Context) bool {
	session := c.session()
	if !c.know.busy(session) && !c.chance(10) {
		return false
	}
	c.emit("abort", session, map[string]any{})
	if c.chance(30) {
		c.emit("abort", session, map[string]any{})
	}
	return false
}

// cancel takes a waiting message back.
func (c *Client) cancel(context.Context) bool {
	session := c.session()
	waiting := c.know.waiting(session)
	if len(waiting) == 0 {
		return false
	}
	c.emit("cancel_queued_run", session, map[string]any{"queue_id": waiting[c.rng.IntN(len(waiting))]})
	return false
}

// repeat sends a message again that was accepted long ago.
func (c *Client) repeat(context.Context) bool {
	if o, ok := c.know.some(c.rng.IntN); ok {
		c.send(o.session, o.message)
	}
	return false
}

// probe tries what another user's session must not allow.
func (c *Client) probe(context.Context) bool {
	if len(c.foreign) == 0 {
		return false
	}
	session := c.foreign[c.rng.IntN(len(c.foreign))]
	if _, made := c.know.exist.Load(session); !made {
		return false // it would become this user's
	}
	switch c.rng.IntN(4) {
	case 0:
		c.emit("resume", session, map[string]any{})
	case 1:
		c.counter++
		qid := fmt.Sprintf("%s.%s.%s.%d", c.user, session, c.name, c.counter)
		c.emit("run", session, map[string]any{"queue_id": qid, "input": Message{QID: qid, Kind: KindText, Words: 5}.Input()})
	case 2:
		c.emit("abort", session, map[string]any{})
	default:
		c.emit("cancel_queued_run", session, map[string]any{"queue_id": "x"})
	}
	return false
}

// breakOff loses the connection as a network does; the client comes back, often
// elsewhere.
func (c *Client) breakOff(ctx context.Context) bool {
	c.drop("cut", c.sock.Cut)
	c.sleep(ctx, c.between(10*time.Millisecond, reconnectMax))
	return true
}

// sayGoodbye closes the window and opens another one, which knows nothing.
func (c *Client) sayGoodbye(ctx context.Context) bool {
	c.drop("goodbye", c.sock.Leave)
	c.id = wire.Identity{}
	c.sleep(ctx, c.between(10*time.Millisecond, reconnectMax))
	return true
}

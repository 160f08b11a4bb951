package engineio

import (
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Errors of sending.
var (
	// ErrClosed: the connection has ended.
	ErrClosed = errors.New("engine.io: connection closed")
	// ErrBufferFull: the client reads too slowly; nothing was queued.
	ErrBufferFull = errors.New("engine.io: send buffer full")
)

// Receiver gets what arrives on one connection.
type Receiver interface {
	// Message is called for each message, one at a time, on the goroutine that
	// reads: blocking here keeps the client from sending more. The data belongs
	// to the receiver.
	Message(data []byte, binary bool)
	// Ping is called right before a ping is queued, Pong when its answer has
	// come: all that was queued before Ping has then reached the client. They
	// must not block.
	Ping()
	Pong()
	// Close is called once, when the connection ends. It must not block.
	Close(reason Reason)
}

const (
	stateOpen = iota
	stateClosing
	stateClosed
)

// Conn is one Engine.IO session. Its methods may be called concurrently.
type Conn struct {
	srv      *Server
	opts     *Options
	receiver Receiver

	id, identity, remoteAddr, query string

	headers []string // name, value, name, value
	meta    any

	mu        sync.Mutex
	state     uint8
	transport Transport
	reason    Reason
	pongDue   bool
	flushing  bool
	paused    atomic.Int32
	queue     *batch
	queued    int
	drains    []func()
	ws        *socketConn
	poll      *pollState // only while the transport is polling
	timer     *time.Timer
	deadline  time.Time
	life      Lifetime
}

// ID is the Engine.IO session id.
func (c *Conn) ID() string { return c.id }

// Query is the query of the handshake request without the protocol's own
// parameters.
func (c *Conn) Query() url.Values {
	q, _ := url.ParseQuery(c.query) // parsed once already at the handshake
	return q
}

// RawQuery is Query as it was sent.
func (c *Conn) RawQuery() string { return c.query }

// Header gives back a handshake header named in Options.KeepHeaders.
func (c *Conn) Header(name string) string {
	for i := 0; i+1 < len(c.headers); i += 2 {
		if c.headers[i] == name {
			return c.headers[i+1]
		}
	}
	return ""
}

// RemoteAddr is the peer of the handshake request.
func (c *Conn) RemoteAddr() string { return c.remoteAddr }

// Meta is what the admission carried.
func (c *Conn) Meta() any { return c.meta }

// Identity is what the admission bound the session id to.
func (c *Conn) Identity() string { return c.identity }

// Options are the settings this connection was opened with.
func (c *Conn) Options() *Options { return c.opts }

// Transport is the current transport.
func (c *Conn) Transport() Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transport
}

// Context ends with the connection.
func (c *Conn) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life.Context()
}

// Close ends the connection. What is queued is still sent, within the write
// timeout, unless the reason says that nobody reads it. It does not wait.
func (c *Conn) Close(reason Reason) { c.close(reason, false) }

// close starts the end of the connection. peerGone means that no close frame
// can or need be sent.
func (c *Conn) close(reason Reason, peerGone bool) {
	c.mu.Lock()
	if c.state != stateOpen {
		c.mu.Unlock()
		return
	}
	c.state, c.reason = stateClosing, reason
	transport := c.transport
	if c.timer != nil {
		c.timer.Stop()
	}
	if reason.abrupt() {
		c.dropQueueLocked()
	}
	drains := c.drains
	c.drains = nil
	c.life.End()
	var abandoned net.Conn
	if transport == WebSocket {
		abandoned = c.closeSocketLocked(reason, peerGone)
	} else {
		abandoned = c.closePollingLocked(reason)
	}
	c.mu.Unlock()

	if abandoned != nil {
		_ = abandoned.Close()
	}

	for _, f := range drains {
		f()
	}
	c.receiver.Close(reason)
	c.opts.Observer.ConnectionClosed(transport, reason)
	if ce := c.opts.Logger.Check(zap.DebugLevel, "connection closed"); ce != nil {
		ce.Write(zap.String("sid", c.id), zap.Stringer("transport", transport), zap.Stringer("reason", reason))
	}
}

// finish forgets the connection; nothing can be sent or asked any more.
func (c *Conn) finish() {
	c.mu.Lock()
	done := c.state == stateClosed
	c.state = stateClosed
	c.dropQueueLocked()
	c.mu.Unlock()
	if !done {
		c.srv.forget(c)
	}
}

// Pause tells the heartbeat that reading is held up on purpose: the client
// cannot be blamed for a pong that waits behind unread messages. Each Pause
// needs its Resume.
func (c *Conn) Pause() { c.paused.Add(1) }

// Resume ends a Pause.
func (c *Conn) Resume() { c.paused.Add(-1) }

// receive handles one packet. It reports false when reading should stop.
func (c *Conn) receive(p packet) bool {
	switch p.typ {
	case typeMessage:
		if !c.isOpen() {
			return false
		}
		c.opts.Observer.PacketsReceived(1, len(p.data))
		c.receiver.Message(p.data, p.binary)
		return true
	case typePong:
		c.pong()
		return true
	case typeNoop:
		return true
	case typeClose:
		c.close(ReasonTransportClose, false)
		return false
	default:
		c.close(ReasonParseError, false)
		return false
	}
}

func (c *Conn) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == stateOpen
}

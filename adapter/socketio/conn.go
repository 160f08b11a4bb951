package socketio

import (
	"context"
	"encoding/json"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

// Conn is one Engine.IO connection with its namespaces.
type Conn struct {
	srv    *Server
	engine *engineio.Conn
	opts   *Options

	mu        sync.Mutex
	closed    bool
	endpoints []endpoint
	alive     int         // endpoints whose worker has not finished
	left      []string    // namespaces this connection once was in
	timer     *time.Timer // runs while there is no namespace

	// Only the reading goroutine uses these.
	binary *assembly
	pace   time.Time
}

// endpoint is one namespace of a connection: a Socket or a relayed namespace.
type endpoint interface {
	Namespace() string
	// deliver takes a packet; it waits while too many are unhandled.
	deliver(p inbound)
	// end is called when the namespace or the connection has ended.
	end(reason Reason)
}

// ID is the Engine.IO session id.
func (c *Conn) ID() string { return c.engine.ID() }

// Query is a copy of the handshake's query without the protocol's parameters.
func (c *Conn) Query() url.Values { return c.engine.Query() }

// RawQuery is Query in the form it was sent.
func (c *Conn) RawQuery() string { return c.engine.RawQuery() }

// Header is a handshake header, if Options.KeepHeaders names it.
func (c *Conn) Header(name string) string { return c.engine.Header(name) }

// RemoteAddr is the peer address of the handshake request.
func (c *Conn) RemoteAddr() string { return c.engine.RemoteAddr() }

// Identity is that of the admission.
func (c *Conn) Identity() string { return c.engine.Identity() }

// Meta is that of the admission.
func (c *Conn) Meta() any { return c.engine.Meta() }

// Transport is the current transport.
func (c *Conn) Transport() Transport { return c.engine.Transport() }

// Context ends with the connection.
func (c *Conn) Context() context.Context { return c.engine.Context() }

// Sockets lists the namespaces the client is in or joining, relayed ones excepted.
func (c *Conn) Sockets() []*Socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*Socket
	for _, ep := range c.endpoints {
		if s, ok := ep.(*Socket); ok {
			all = append(all, s)
		}
	}
	return all
}

// Close closes the connection without telling the namespaces, so that the
// client connects again if the reason is such.
func (c *Conn) Close(reason Reason) { c.engine.Close(reason) }

// receiver is the side of Conn that the engine calls.
type receiver Conn

// Message takes one Engine.IO message on the reading goroutine.
func (r *receiver) Message(data []byte, binary bool) {
	c := (*Conn)(r)
	if binary {
		c.attach(data)
		return
	}
	h, err := decodeHeader(data)
	if err == nil && c.binary != nil {
		err = errMalformed // text between a binary packet and its attachments
	}
	if err != nil {
		c.malformed(err)
		return
	}
	if h.attachments > 0 {
		c.binary = &assembly{text: data, head: h}
		return
	}
	c.dispatch(inbound{text: data, head: h})
}

// malformed ends the connection of a client that does not speak the protocol.
func (c *Conn) malformed(err error) {
	c.opts.Logger.Info("malformed packet", zap.String("sid", c.ID()), zap.String("remote", c.RemoteAddr()), zap.Error(err))
	c.engine.Close(ReasonParseError)
}

// assembly is a binary packet that waits for attachments.
type assembly struct {
	text        []byte
	head        header
	attachments [][]byte
	size        int64
}

// maxBinary bounds a binary packet as a whole, in units of MaxPayload.
const maxBinary = 4

func (c *Conn) attach(data []byte) {
	a := c.binary
	if a == nil {
		c.malformed(errMalformed)
		return
	}
	a.size += int64(len(data))
	if a.size > maxBinary*c.opts.MaxPayload {
		c.engine.Close(ReasonTooBig)
		return
	}
	a.attachments = append(a.attachments, data)
	if len(a.attachments) == a.head.attachments {
		c.binary = nil
		c.dispatch(inbound{text: a.text, head: a.head, attachments: a.attachments})
	}
}

// dispatch gives a complete packet to its namespace.
func (c *Conn) dispatch(p inbound) {
	switch p.head.typ {
	case typeEvent, typeBinaryEvent, typeConnect:
		c.throttle()
	}
	ep, known := c.find(p.head.namespace)
	switch {
	case ep == nil && p.head.typ == typeConnect:
		c.connect(p)
	case ep == nil && !known:
		c.malformed(errMalformed)
	case ep == nil: // late packet of a namespace that has ended
	default:
		c.toEndpoint(ep, p)
	}
}

func (c *Conn) toEndpoint(ep endpoint, p inbound) {
	if _, raw := ep.(*rawEndpoint); raw {
		ep.deliver(p)
		if p.head.typ == typeDisconnect {
			c.leave(ep)
			ep.end(ReasonClientNamespace)
		}
		return
	}
	switch p.head.typ {
	case typeDisconnect:
		c.leave(ep)
		ep.end(ReasonClientNamespace)
	case typeConnect, typeConnectError:
		c.malformed(errMalformed)
	default:
		ep.deliver(p)
	}
}

// find looks a namespace up; known tells whether there once was one.
func (c *Conn) find(name []byte) (ep endpoint, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ep := range c.endpoints {
		if ep.Namespace() == string(name) {
			return ep, true
		}
	}
	for _, n := range c.left {
		if n == string(name) {
			return nil, true
		}
	}
	return nil, false
}

// connect handles a CONNECT to a namespace that this connection is not in.
func (c *Conn) connect(p inbound) {
	name := string(p.head.namespace)
	var ep endpoint
	if ns := c.srv.namespaces[name]; ns != nil {
		ep = newSocket(c, ns)
	} else if c.srv.unknown != nil {
		ep = newRawEndpoint(c, name)
	} else {
		c.refuse(name, &Refused{Message: "Invalid namespace"})
		return
	}
	c.mu.Lock()
	// Leaving and joining again must not pile up handlers that are still busy.
	full := len(c.endpoints) >= c.opts.MaxNamespaces || c.alive >= 2*c.opts.MaxNamespaces
	closed := c.closed
	if !full && !closed {
		c.alive++
		c.endpoints = append(c.endpoints, ep)
		c.stopTimerLocked()
	}
	c.mu.Unlock()
	switch {
	case closed:
	case full:
		c.refuse(name, &Refused{Message: "Too many namespaces"})
	default:
		ep.deliver(p)
	}
}

// refuse answers a CONNECT with CONNECT_ERROR.
func (c *Conn) refuse(namespace string, r *Refused) {
	b := appendHead(nil, typeConnectError, 0, namespace, noID)
	body := struct {
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{r.Message, r.Data}
	text, err := appendJSON(b, body)
	if err != nil {
		body.Data = nil
		text, _ = appendJSON(b, body) // two strings always encode
	}
	_ = c.engine.SendControl(engineio.Message{Data: text}) // a closed connection needs no answer
}

// release is called when the worker of an endpoint has nothing more to do.
func (c *Conn) release() {
	c.mu.Lock()
	c.alive--
	c.mu.Unlock()
}

// leave takes an endpoint out of the connection.
func (c *Conn) leave(ep endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.endpoints {
		if e == ep {
			c.endpoints = append(c.endpoints[:i:i], c.endpoints[i+1:]...)
			c.rememberLocked(ep.Namespace())
			break
		}
	}
	if len(c.endpoints) == 0 && !c.closed {
		c.armLocked()
	}
}

func (c *Conn) rememberLocked(name string) {
	for _, n := range c.left {
		if n == name {
			return
		}
	}
	if len(c.left) >= c.opts.MaxNamespaces {
		c.left = c.left[1:]
	}
	c.left = append(c.left, name)
}

// armLocked starts the time in which a namespace must be joined.
func (c *Conn) armLocked() {
	c.stopTimerLocked()
	c.timer = time.AfterFunc(c.opts.ConnectTimeout, func() {
		c.mu.Lock()
		idle := len(c.endpoints) == 0
		c.mu.Unlock()
		if idle {
			c.engine.Close(ReasonConnectTimeout)
		}
	})
}

func (c *Conn) stopTimerLocked() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// throttle keeps to the event rate by not reading on.
func (c *Conn) throttle() {
	if c.opts.EventRate <= 0 {
		return
	}
	now := time.Now()
	if c.pace.Before(now) {
		c.pace = now
	}
	// One second's worth may come at once.
	wait := c.pace.Sub(now) - time.Second
	c.pace = c.pace.Add(time.Duration(float64(time.Second) / c.opts.EventRate))
	if wait <= 0 {
		return
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	c.wait(t.C, nil)
}

// wait holds up the reading goroutine until one of the channels is ready or
// reading has no more purpose; then it reports false.
func (c *Conn) wait(timer <-chan time.Time, space <-chan struct{}) bool {
	c.engine.Pause()
	defer c.engine.Resume()
	var ended <-chan struct{}
	if c.Transport() == Polling { // an exit waits for the request that brought the packet
		ended = c.srv.engine.PollsEnded()
	}
	select {
	case <-timer:
		return true
	case <-space:
		return true
	case <-c.engine.Context().Done():
	case <-ended:
	}
	return false
}

// Ping is called before a ping is queued.
func (r *receiver) Ping() { (*Conn)(r).eachPongSocket((*Socket).ping) }

// Pong is called when a ping was answered.
func (r *receiver) Pong() { (*Conn)(r).eachPongSocket((*Socket).pong) }

func (c *Conn) eachPongSocket(f func(*Socket)) {
	var room [4]*Socket
	sockets := room[:0]
	c.mu.Lock()
	for _, ep := range c.endpoints {
		if s, ok := ep.(*Socket); ok && s.ns.pongs != nil {
			sockets = append(sockets, s)
		}
	}
	c.mu.Unlock()
	for _, s := range sockets {
		f(s)
	}
}

// Close is called once when the connection has ended.
func (r *receiver) Close(reason Reason) {
	c := (*Conn)(r)
	c.mu.Lock()
	c.closed = true
	eps := c.endpoints
	c.endpoints = nil
	c.stopTimerLocked()
	c.mu.Unlock()
	for _, ep := range eps {
		ep.end(reason)
	}
}

// connectPayload is the auth payload of a CONNECT packet, nil if there is none.
func connectPayload(h header) (json.RawMessage, bool) {
	if len(h.payload) == 0 {
		return nil, true
	}
	return h.payload, json.Valid(h.payload)
}

package socketio

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

const (
	phaseConnecting = iota
	phaseConnected
	phaseEnded
)

// Socket is one namespace of one connection. Its methods may be called
// concurrently, unless stated otherwise.
type Socket struct {
	conn  *Conn
	ns    *namespace
	phase atomic.Int32
	box   mailbox

	mu     sync.Mutex
	id     string
	pinged bool
	reason Reason
	life   engineio.Lifetime
	data   any
	acks   map[int64]chan inbound
	lastID int64

	endConnect context.CancelFunc // while Connect runs
	rooms      []string           // guarded by ns.mu
	greeted    bool               // Connected was called; only the worker uses it
}

func newSocket(c *Conn, ns *namespace) *Socket { return &Socket{conn: c, ns: ns} }

// ID is the socket id of this namespace; empty while Connect runs.
func (s *Socket) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Conn is the connection under the socket.
func (s *Socket) Conn() *Conn { return s.conn }

// Namespace is the name of the namespace.
func (s *Socket) Namespace() string { return s.ns.name }

// Context ends with the socket.
func (s *Socket) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.Context()
}

// Data is what SetData has stored.
func (s *Socket) Data() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// SetData keeps a value of the application with the socket.
func (s *Socket) SetData(v any) {
	s.mu.Lock()
	s.data = v
	s.mu.Unlock()
}

// Emit sends an event. Arguments are encoded as JSON; a json.RawMessage is
// taken as it is, a []byte becomes a binary attachment.
func (s *Socket) Emit(event string, args ...any) error {
	p, err := encode(typeEvent, s.ns.name, noID, event, args)
	if err != nil {
		return err
	}
	return s.Send(p, "")
}

// Send sends an event that was encoded for this namespace. An offset that is
// not empty is appended as the last argument, as connection state recovery
// wants it.
func (s *Socket) Send(p *Packet, offset string) error {
	if s.phase.Load() != phaseConnected {
		return ErrClosed
	}
	if len(p.attachments) == 0 {
		return s.conn.engine.Send(p.message(offset))
	}
	return s.conn.engine.Send(p.messages(offset)...)
}

// messages is the packet with its attachments.
func (p *Packet) messages(offset string) []engineio.Message {
	ms := make([]engineio.Message, 0, 1+len(p.attachments))
	ms = append(ms, p.message(offset))
	for _, a := range p.attachments {
		ms = append(ms, engineio.Message{Data: a, Binary: true})
	}
	return ms
}

// Buffered is the number of bytes queued on the connection.
func (s *Socket) Buffered() int { return s.conn.engine.Buffered() }

// OnDrain calls f once, soon, when less than half of the connection's send
// buffer is in use, or when the connection ends. f must not block; it may be
// called before OnDrain returns. The caller keeps to one registration at a time.
func (s *Socket) OnDrain(f func()) { s.conn.engine.OnDrain(f) }

// Disconnect removes the socket from its namespace; the official client does
// not come back by itself. With closeConn the connection is closed too.
func (s *Socket) Disconnect(closeConn bool) {
	if s.phase.Load() == phaseConnected {
		text := appendHead(nil, typeDisconnect, 0, s.ns.name, noID)
		_ = s.conn.engine.SendControl(engineio.Message{Data: text}) // a closed connection needs no packet
	}
	s.conn.leave(s)
	s.end(ReasonServerNamespace)
	if closeConn {
		s.conn.engine.Close(ReasonServerClose)
	}
}

// deliver takes a packet on the reading goroutine. Acknowledgements pass by
// the events: an event handler may be waiting for one.
func (s *Socket) deliver(p inbound) {
	if p.head.typ == typeAck || p.head.typ == typeBinaryAck {
		s.resolve(p)
		return
	}
	s.conn.post(&s.box, p, s.work)
}

// end closes the socket; Disconnected follows what is already queued.
func (s *Socket) end(reason Reason) {
	if s.phase.Swap(phaseEnded) == phaseEnded {
		return
	}
	s.mu.Lock()
	s.reason = reason
	s.life.End()
	if s.endConnect != nil {
		s.endConnect()
	}
	for _, ch := range s.acks {
		close(ch)
	}
	s.acks = nil
	s.mu.Unlock()
	s.ns.removeAll(s)
	s.conn.force(&s.box, inbound{kind: kindEnd}, s.work)
}

func (s *Socket) ping() {
	if s.phase.Load() != phaseConnected {
		return
	}
	s.mu.Lock()
	s.pinged = true
	s.mu.Unlock()
	s.ns.pongs.Ping(s)
}

func (s *Socket) pong() {
	s.mu.Lock()
	pinged := s.pinged
	s.pinged = false
	s.mu.Unlock()
	if pinged {
		s.conn.force(&s.box, inbound{kind: kindPong}, s.work)
	}
}

// work is the goroutine of a socket while there is something to handle.
func (s *Socket) work() {
	defer s.conn.srv.workers.done()
	for {
		items := s.box.take()
		if len(items) == 0 {
			return
		}
		for i := range items {
			s.handle(&items[i])
		}
	}
}

// handle calls the handler. A panic there ends this connection only.
func (s *Socket) handle(p *inbound) {
	defer func() {
		if r := recover(); r != nil {
			s.conn.opts.Logger.Error("panic in a namespace handler", zap.String("namespace", s.ns.name),
				zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			s.conn.engine.Close(ReasonServerClose)
		}
	}()
	switch {
	case p.kind == kindPong:
		s.ns.pongs.Pong(s)
	case p.kind == kindEnd:
		if s.greeted {
			s.greeted = false
			s.mu.Lock()
			reason := s.reason
			s.mu.Unlock()
			defer s.conn.release()
			s.ns.handler.Disconnected(s, reason)
			return
		}
		s.conn.release()
	case p.head.typ == typeConnect:
		s.accept(p.head)
	default:
		s.event(p)
	}
}

// accept asks the handler whether the client may join.
func (s *Socket) accept(h header) {
	auth, ok := connectPayload(h)
	if !ok {
		s.conn.malformed(errMalformed)
		return
	}
	ctx, cancel := s.connectContext()
	welcome, err := s.ns.handler.Connect(ctx, s, auth)
	late := ctx.Err() != nil
	cancel()
	if err != nil {
		s.reject(err, late)
		return
	}
	if welcome.SID == "" {
		welcome.SID = engineio.RandomID()
	}
	s.mu.Lock()
	s.id = welcome.SID
	s.mu.Unlock()
	text := appendHead(nil, typeConnect, 0, s.ns.name, noID)
	text = append(text, `{"sid":`...)
	text = appendString(text, welcome.SID)
	if welcome.PID != "" {
		text = append(text, `,"pid":`...)
		text = appendString(text, welcome.PID)
	}
	if s.phase.Load() == phaseConnecting {
		_ = s.conn.engine.SendControl(engineio.Message{Data: append(text, '}')}) // if closed, the end is already queued
	}
	s.phase.CompareAndSwap(phaseConnecting, phaseConnected)
	s.greeted = true
	s.ns.handler.Connected(s)
}

// connectContext bounds Connect. It is not derived from the socket's own
// context, which would have to exist for that.
func (s *Socket) connectContext() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), s.conn.opts.ConnectTimeout)
	s.mu.Lock()
	s.endConnect = cancel
	s.mu.Unlock()
	if s.phase.Load() == phaseEnded {
		cancel()
	}
	return ctx, func() {
		s.mu.Lock()
		s.endConnect = nil
		s.mu.Unlock()
		cancel()
	}
}

// reject tells the client why it may not join.
func (s *Socket) reject(err error, late bool) {
	if s.phase.Swap(phaseEnded) == phaseEnded {
		return // gone meanwhile; the end is already queued
	}
	s.conn.release()
	s.mu.Lock()
	s.life.End()
	s.mu.Unlock()
	s.ns.removeAll(s)
	s.conn.leave(s)
	var refused *Refused
	if !errors.As(err, &refused) {
		refused = &Refused{Message: "Connection refused"}
		if late {
			refused.Message = "Connection timed out"
		}
		s.conn.opts.Logger.Warn("namespace connect failed", zap.String("namespace", s.ns.name),
			zap.String("sid", s.conn.ID()), zap.Error(err))
	}
	s.conn.refuse(s.ns.name, refused)
}

// event decodes an event and gives it to the handler.
func (s *Socket) event(p *inbound) {
	if !s.greeted { // sent before the CONNECT was answered, which clients do not do
		s.conn.malformed(errMalformed)
		return
	}
	name, args, err := decodeEvent(p.head.payload)
	if err != nil {
		s.conn.malformed(err)
		return
	}
	e := Event{Name: name, Args: args, Attachments: p.attachments}
	if p.head.id != noID {
		e.Ack = s.answer(p.head.id)
	}
	s.ns.handler.Event(s, e)
}

// answer makes the function that acknowledges an event.
func (s *Socket) answer(id int64) func(args ...any) error {
	var done atomic.Bool
	return func(args ...any) error {
		if done.Swap(true) {
			return errors.New("socket.io: event is already acknowledged")
		}
		p, err := encode(typeAck, s.ns.name, id, "", args)
		if err != nil {
			return err
		}
		if s.phase.Load() != phaseConnected {
			return ErrClosed
		}
		if len(p.attachments) == 0 {
			return s.conn.engine.SendControl(p.message(""))
		}
		return s.conn.engine.SendControl(p.messages("")...)
	}
}

package edge

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
)

// reasonGoing closes connections because this node goes away.
const reasonGoing = socketio.ReasonShutdown

// socket is one client in /chat-run, as the engine sees it.
type socket struct {
	core    *Core
	conn    *socketio.Socket
	id      string // Socket.IO sid; survives a recovery
	user    string // never changes: a principal is replaced by one of the same user
	profile string
	pid     string // empty: recovery is off
	holder  string // node/nonce of this connection

	principal atomic.Pointer[auth.Principal]
	recover   []engine.Room // to be continued before the first event
	closing   atomic.Bool

	mu      sync.Mutex
	track   track
	expiry  *time.Timer
	retired bool // sends nothing and follows nothing any more
	save    saveState
}

// ID implements engine.Socket.
func (s *socket) ID() string { return s.id }

// Principal implements engine.Socket.
func (s *socket) Principal() *auth.Principal { return s.principal.Load() }

// Profile implements engine.Socket.
func (s *socket) Profile() string { return s.profile }

// Send implements engine.Socket: the event is encoded once for all sockets, only
// the offset behind it is each one's own.
func (s *socket) Send(e *engine.Event, r engine.Room) bool {
	packet, ok := e.Frame.(*socketio.Packet)
	if !ok {
		packet = socketio.NewPacket(chatrun.Namespace, e.Name, e.Payload)
		e.Frame = packet
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return true // nobody waits for it; a full buffer would be asked about again
	}
	undo := s.track.move(r)
	if err := s.conn.Send(packet, s.track.token()); err != nil {
		s.track.restoreFrom(undo)
		return !errors.Is(err, socketio.ErrBufferFull) // a closed one is not waited for
	}
	if undo.record {
		s.saveSoonLocked()
	}
	return true
}

// Drained implements engine.Socket.
func (s *socket) Drained(f func()) { s.conn.OnDrain(f) }

// Left implements engine.Socket.
func (s *socket) Left(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.retired && s.track.leave(sessionID) {
		s.saveSoonLocked()
	}
}

// Gone implements engine.Socket.
func (s *socket) Gone() bool {
	if s.closing.Load() || s.conn.Context().Err() != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired
}

// Close implements engine.Socket.
func (s *socket) Close(r engine.CloseReason) { s.disconnect(closeReason(r)) }

func closeReason(r engine.CloseReason) socketio.Reason {
	if r == engine.CloseBehind {
		return socketio.ReasonSlowConsumer
	}
	return socketio.ReasonServerClose
}

// disconnect closes the connection so that the client connects again by itself:
// leaving only the namespace would end it for good. It reports whether nobody has
// done so before.
func (s *socket) disconnect(r socketio.Reason) bool {
	first := !s.closing.Swap(true)
	s.conn.Conn().Close(r)
	return first
}

// reply sends an event of no session to this socket only. A client that does not
// even read that is not waited for.
func (s *socket) reply(event string, payload []byte) {
	s.Send(&engine.Event{Name: event, Payload: payload}, engine.Room{})
}

// awaitsEnding reports whether the client was shown a run whose ending it has not
// got yet.
func (s *socket) awaitsEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.track.shows()
}

// retire makes the socket silent and starts the last save of its record, which
// lives on for the recovery time, or not at all if the client left by itself.
func (s *socket) retire(keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retired {
		return
	}
	s.retired = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.saveLastLocked(keep)
}

// expireAt closes the connection when its principal ends (AUT-06); the client is
// asked for a credential again.
func (s *socket) expireAt(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	if t.IsZero() || s.retired {
		return
	}
	s.expiry = time.AfterFunc(max(time.Until(t), 0), func() { s.disconnect(socketio.ReasonCredentials) })
}

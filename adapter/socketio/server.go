package socketio

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

// Server is a Socket.IO server. Its methods may be called concurrently.
type Server struct {
	opts       atomic.Pointer[Options]
	engine     *engineio.Server
	namespaces map[string]*namespace
	unknown    UnknownFunc
	workers    tracker
}

// namespace is a handler and its rooms.
type namespace struct {
	name    string
	handler Handler
	pongs   PongHandler // nil if the handler does not ask

	mu    sync.RWMutex
	rooms map[string]map[*Socket]struct{}
}

// UnknownFunc decides about a CONNECT to a namespace without a handler. It
// runs on a goroutine of that namespace. With false the client gets "Invalid
// namespace"; otherwise the RawNamespace answers the CONNECT itself.
type UnknownFunc func(c *Conn, namespace string, connect json.RawMessage) (RawNamespace, bool)

// NewServer makes a server without namespaces.
func NewServer(o Options) *Server {
	s := &Server{namespaces: make(map[string]*namespace)}
	opts := o.withDefaults()
	s.opts.Store(opts)
	s.engine = engineio.NewServer(opts.engine(), s.open)
	return s
}

// Reconfigure changes the options for the next handshakes.
func (s *Server) Reconfigure(o Options) {
	opts := o.withDefaults()
	s.opts.Store(opts)
	s.engine.Reconfigure(opts.engine())
}

// Handle sets the handler of a namespace such as "/" or "/chat". All handlers
// must be set before the first request is served.
func (s *Server) Handle(name string, h Handler) {
	ns := &namespace{name: name, handler: h, rooms: make(map[string]map[*Socket]struct{})}
	ns.pongs, _ = h.(PongHandler)
	s.namespaces[name] = ns
}

// HandleUnknown sets what happens to namespaces without a handler, before the
// first request is served.
func (s *Server) HandleUnknown(f UnknownFunc) { s.unknown = f }

// Serve answers any request of the Socket.IO path: handshake, poll, post,
// upgrade. For a WebSocket it returns right after the handshake.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, a Admission) { s.engine.Serve(w, r, a) }

// CloseAll closes the connections that are open now in a way that makes
// clients connect again, spread over a time. It returns at once.
func (s *Server) CloseAll(reason Reason, spread time.Duration) { s.engine.CloseAll(reason, spread) }

// EndPolls answers every open poll now and later ones at once, because an
// HTTP server that exits waits for them.
func (s *Server) EndPolls() { s.engine.EndPolls() }

// Shutdown closes all connections and waits for every goroutine, Disconnected
// calls included, or until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.engine.Shutdown(ctx)
	if werr := s.workers.wait(ctx); err == nil {
		err = werr
	}
	return err
}

// Connections is the number of open connections.
func (s *Server) Connections() int { return s.engine.Connections() }

// Conns lists the open connections, in no order.
func (s *Server) Conns() []*Conn {
	receivers := s.engine.Receivers()
	all := make([]*Conn, len(receivers))
	for i, r := range receivers {
		all[i] = (*Conn)(r.(*receiver))
	}
	return all
}

// open is called by the engine for each accepted handshake.
func (s *Server) open(e *engineio.Conn) engineio.Receiver {
	c := &Conn{srv: s, engine: e, opts: s.opts.Load()}
	c.mu.Lock()
	c.armLocked()
	c.mu.Unlock()
	return (*receiver)(c)
}

// tracker counts goroutines. Unlike a WaitGroup it may be added to while
// somebody waits.
type tracker struct {
	mu   sync.Mutex
	n    int
	idle chan struct{}
}

func (t *tracker) add() {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
}

func (t *tracker) done() {
	t.mu.Lock()
	t.n--
	if t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
	t.mu.Unlock()
}

func (t *tracker) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

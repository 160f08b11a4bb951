package engineio

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Admission is what the caller knows of a request it lets in.
type Admission struct {
	// Identity is what the session id is bound to: a request with the same
	// session id and another identity is forbidden.
	Identity string
	// Meta is kept with the connection.
	Meta any
	// RawConn is the network connection under the request if the caller has
	// it, else nil. With it, wrappers of the HTTP server can be let go of.
	RawConn net.Conn
}

// Server holds the Engine.IO sessions of a process.
type Server struct {
	opts   atomic.Pointer[Options]
	onOpen func(*Conn) Receiver

	mu     sync.Mutex
	conns  map[string]*Conn
	opened int // including handshakes under way
	closed bool

	group      sync.WaitGroup // goroutines; grows only under mu or from inside the group
	stop       chan struct{}
	pollsEnded chan struct{}
	endPolls   sync.Once
}

// NewServer makes a server. onOpen is called for each accepted handshake
// before anything is sent; it must not block and not send.
func NewServer(o Options, onOpen func(*Conn) Receiver) *Server {
	s := &Server{
		onOpen:     onOpen,
		conns:      make(map[string]*Conn),
		stop:       make(chan struct{}),
		pollsEnded: make(chan struct{}),
	}
	s.opts.Store(o.withDefaults())
	return s
}

// Reconfigure changes the options for the next handshakes.
func (s *Server) Reconfigure(o Options) { s.opts.Store(o.withDefaults()) }

// Connections is the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// PollsEnded is closed by EndPolls.
func (s *Server) PollsEnded() <-chan struct{} { return s.pollsEnded }

// Serve answers any request of the Engine.IO path. A WebSocket is served on
// goroutines of its own: Serve returns right after the handshake.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, a Admission) {
	if r.Method == http.MethodOptions { // a preflight may come without its session
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method == http.MethodConnect {
		errExtended.write(w)
		return
	}
	if fail := s.route(w, r, a); fail != nil {
		fail.write(w)
	}
}

func (s *Server) route(w http.ResponseWriter, r *http.Request, a Admission) *httpError {
	q := r.URL.Query()
	transport := q.Get("transport")
	if transport != "polling" && transport != "websocket" {
		return errUnknownTransport
	}
	if q.Has("j") { // JSONP
		return errBadRequest
	}
	sid := q.Get("sid")
	if sid == "" {
		return s.handshake(w, r, a, q, transport)
	}
	c := s.lookup(sid)
	if c == nil {
		return errUnknownSID
	}
	if c.identity != a.Identity {
		return errForbidden
	}
	switch {
	case transport == "websocket":
		return s.upgrade(w, r, a, c)
	case r.Method == http.MethodGet:
		c.servePoll(w, r)
	case r.Method == http.MethodPost:
		c.servePost(w, r)
	default:
		return errBadMethod
	}
	return nil
}

func (s *Server) handshake(w http.ResponseWriter, r *http.Request, a Admission, q url.Values, transport string) *httpError {
	if r.Method != http.MethodGet {
		return errBadMethod
	}
	if transport == "websocket" {
		if !isUpgrade(r) {
			return errBadRequest
		}
		if fail := checkUpgrade(r); fail != nil {
			return fail
		}
	}
	if q.Get("EIO") != "4" {
		return errVersion
	}
	o := s.opts.Load()
	if !s.reserve(o.MaxConnections) {
		return errBusy
	}
	c := newConn(s, o, r, a)
	if transport == "websocket" {
		return s.openSocket(w, r, a, c)
	}
	c.poll = &pollState{}
	c.receiver = s.onOpen(c)
	o.Observer.ConnectionOpened(Polling)
	s.register(c)
	c.startHeartbeat()
	if err := writeBody(w, "text/plain; charset=UTF-8", c.openPacket(), o.WriteTimeout); err != nil {
		c.close(ReasonTransportError, false)
	}
	return nil
}

func newConn(s *Server, o *Options, r *http.Request, a Admission) *Conn {
	c := &Conn{
		srv: s, opts: o,
		id:         o.NewSID(),
		identity:   strings.Clone(a.Identity),
		remoteAddr: strings.Clone(r.RemoteAddr),
		query:      ownQuery(r.URL.RawQuery),
		meta:       a.Meta,
	}
	for _, name := range o.KeepHeaders {
		v := strings.Join(r.Header.Values(name), ", ")
		if name == "Host" {
			v = r.Host
		}
		if v != "" {
			c.headers = append(c.headers, name, strings.Clone(v))
		}
	}
	return c
}

// ownQuery copies a query without the parameters of the protocol, so that
// the request is not kept alive by it.
func ownQuery(raw string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(part, "=")
		switch name {
		case "", "EIO", "transport", "sid", "t", "b64":
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(part)
	}
	return b.String()
}

// openPacket is the first packet of a connection, with its type.
func (c *Conn) openPacket() []byte {
	b := make([]byte, 0, 160)
	b = append(b, typeOpen)
	b = append(b, `{"sid":`...)
	b = strconv.AppendQuote(b, c.id)
	if c.transport == Polling {
		b = append(b, `,"upgrades":["websocket"]`...)
	} else {
		b = append(b, `,"upgrades":[]`...)
	}
	b = append(b, `,"pingInterval":`...)
	b = strconv.AppendInt(b, c.opts.PingInterval.Milliseconds(), 10)
	b = append(b, `,"pingTimeout":`...)
	b = strconv.AppendInt(b, c.opts.PingTimeout.Milliseconds(), 10)
	b = append(b, `,"maxPayload":`...)
	b = strconv.AppendInt(b, c.opts.MaxPayload, 10)
	return append(b, '}')
}

func (s *Server) lookup(sid string) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[sid]
}

// reserve counts a handshake in, or refuses it.
func (s *Server) reserve(limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || (limit > 0 && s.opened >= limit) {
		return false
	}
	s.opened++
	return true
}

func (s *Server) unreserve() {
	s.mu.Lock()
	s.opened--
	s.mu.Unlock()
}

// register makes the connection known. One that opens while the server shuts
// down is closed again.
func (s *Server) register(c *Conn) {
	s.mu.Lock()
	s.conns[c.id] = c
	closed := s.closed
	s.mu.Unlock()
	if closed {
		c.close(ReasonShutdown, false)
	}
}

func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	if s.conns[c.id] == c {
		delete(s.conns, c.id)
		s.opened--
	}
	s.mu.Unlock()
}

// enter starts a goroutine's membership in the group.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.group.Add(1)
	return true
}

func (s *Server) snapshot() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for _, c := range s.conns {
		all = append(all, c)
	}
	return all
}

// Receivers lists the receivers of the open connections, in no order.
func (s *Server) Receivers() []Receiver {
	conns := s.snapshot()
	all := make([]Receiver, len(conns))
	for i, c := range conns {
		all[i] = c.receiver
	}
	return all
}

// CloseAll closes the connections that are open now, evenly spread over the
// given time, so that the clients do not all come back at once. It returns at
// once; Shutdown cuts the spreading short.
func (s *Server) CloseAll(reason Reason, spread time.Duration) {
	conns := s.snapshot()
	if spread <= 0 || len(conns) < 2 || !s.enter() {
		closeEach(conns, reason)
		return
	}
	go func() {
		defer s.group.Done()
		step := time.NewTicker(max(spread/time.Duration(len(conns)), time.Millisecond))
		defer step.Stop()
		begin := time.Now()
		for done := 0; done < len(conns); {
			due := int(int64(len(conns)) * int64(time.Since(begin)) / int64(spread))
			due = min(max(due, 1), len(conns))
			if due > done {
				closeEach(conns[done:due], reason)
				done = due
			}
			select {
			case <-step.C:
			case <-s.stop:
				return
			}
		}
	}()
}

func closeEach(conns []*Conn, reason Reason) {
	for _, c := range conns {
		c.Close(reason)
	}
}

// EndPolls answers every open poll now and every later one at once. It is for
// the exit of the process: an HTTP server waits for its open requests.
func (s *Server) EndPolls() { s.endPolls.Do(func() { close(s.pollsEnded) }) }

// Shutdown refuses new connections, closes all others and waits until their
// goroutines have ended; when ctx ends first, it cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	s.EndPolls()
	for _, c := range s.snapshot() {
		c.Close(ReasonShutdown)
		c.endLinger()
	}
	done := make(chan struct{})
	go func() {
		s.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.snapshot() {
		c.cut()
	}
	<-done // every goroutine ends with its network connection
	return ctx.Err()
}

// endLinger forgets a closed polling session that waits for a last poll.
func (c *Conn) endLinger() {
	c.mu.Lock()
	lingering := c.poll != nil && c.poll.linger != nil && c.poll.linger.Stop()
	c.mu.Unlock()
	if lingering {
		c.finish()
	}
}

// cut drops the network connection.
func (c *Conn) cut() {
	c.mu.Lock()
	sock := c.ws
	c.mu.Unlock()
	if sock != nil {
		_ = sock.conn.Close()
	}
}

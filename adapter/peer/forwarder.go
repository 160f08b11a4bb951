package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// maxForwards bounds the requests and upgraded connections under way.
	maxForwards  = 16 << 10
	writeTimeout = 10 * time.Second // of each write to a client or node
	warnInterval = 10 * time.Second
)

// Options configure a [Forwarder].
type Options struct {
	Secret []byte // shared by all nodes
	Lookup LookupFunc
	// Limits answers the largest body that is forwarded, in bytes, and how long a
	// node may be silent.
	Limits func() (body int64, silence time.Duration)
	// Gone answers a request whose node is gone or cannot be reached.
	Gone func(w http.ResponseWriter)
	// TooLarge answers a request whose body is larger than allowed.
	TooLarge func(w http.ResponseWriter)
	Logger   *zap.Logger // may be nil
}

// Forwarder hands requests to other nodes. It is safe for concurrent use.
type Forwarder struct {
	opts  Options
	nodes directory
	slots chan struct{}

	polls, ended context.Context // end: requests that wait for an answer; everything
	endPolls     context.CancelFunc
	end          context.CancelFunc
	warned       atomic.Int64 // when a failure was logged, in Unix nanoseconds

	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup // of requests and of goroutines of upgraded connections
}

// NewForwarder makes a forwarder, which is to be closed.
func NewForwarder(o Options) *Forwarder {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	f := &Forwarder{opts: o, slots: make(chan struct{}, maxForwards)}
	f.nodes.init(o.Secret, o.Lookup, o.Logger)
	f.ended, f.end = context.WithCancel(context.Background())
	f.polls, f.endPolls = context.WithCancel(f.ended)
	return f
}

// EndPolls answers every request that waits for an answer as one whose node is
// gone, now and later: an HTTP server that exits waits for its requests. Upgraded
// connections go on.
func (f *Forwarder) EndPolls() { f.endPolls() }

// Close ends everything that is under way and waits for it.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.end()
	f.group.Wait()
	f.nodes.close()
}

// Waiting is the number of requests and upgraded connections under way.
func (f *Forwarder) Waiting() int { return len(f.slots) }

// enter counts a request in, unless there are too many.
func (f *Forwarder) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	select {
	case f.slots <- struct{}{}:
		f.group.Add(1)
		return true
	default:
		return false
	}
}

func (f *Forwarder) leave() {
	<-f.slots
	f.group.Done()
}

// Forward has a node answer a request of the client whom identity names. The answer
// is passed on as it comes. An upgraded connection is served on goroutines of its
// own: Forward returns right after the handshake.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, node, identity string) {
	if !f.enter() {
		f.opts.Gone(w)
		return
	}
	leave := sync.OnceFunc(f.leave)
	way := f.nodes.find(r.Context(), node)
	if way == nil {
		f.opts.Logger.Debug("no way to the node of a request", zap.String("node", node))
		leave()
		f.opts.Gone(w)
		return
	}
	var err error
	if upgrades(r) {
		err = f.upgrade(w, r, way, identity, leave)
	} else {
		defer leave()
		err = f.pass(w, r, way, identity)
	}
	if err != nil {
		f.fail(w, r, way, err)
	}
}

// errRefused: the other node does not take this one's proof.
var errRefused = errors.New("it refuses this node; do both use the same Redis and key prefix?")

// errAway: the other node is about to go, or has too much to do.
var errAway = errors.New("it does not take the request")

// fail answers a request that no node has answered.
func (f *Forwarder) fail(w http.ResponseWriter, r *http.Request, way *route, err error) {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		f.opts.TooLarge(w)
		return
	}
	now := time.Now().UnixNano()
	if last := f.warned.Load(); r.Context().Err() == nil && f.polls.Err() == nil &&
		now-last > int64(warnInterval) && f.warned.CompareAndSwap(last, now) {
		f.opts.Logger.Warn("a request could not be forwarded to the node it belongs to; its client connects anew. "+
			"If that node runs, check that its address can be reached from here",
			zap.String("node", way.Name), zap.String("address", way.Address), zap.Error(err))
	}
	f.opts.Gone(w)
}

// pass forwards a request and passes the answer on. An error means that nothing has
// been answered yet.
func (f *Forwarder) pass(w http.ResponseWriter, r *http.Request, way *route, identity string) error {
	maxBody, silence := f.opts.Limits()
	if r.ContentLength > maxBody {
		return &http.MaxBytesError{Limit: maxBody}
	}
	ctx, cancel := context.WithTimeout(r.Context(), silence)
	defer cancel()
	defer context.AfterFunc(f.polls, cancel)()

	out := newRequest(r, way, identity).WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		rc := http.NewResponseController(w)
		if deadline, _ := ctx.Deadline(); rc.SetReadDeadline(deadline) == nil {
			defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
		}
		out.ContentLength = r.ContentLength
		out.Body = http.MaxBytesReader(w, r.Body, maxBody)
		defer func() { _ = out.Body.Close() }() // the transport may still read when the answer came early
	}
	answer, err := way.transport.RoundTrip(out)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return relay(w, answer)
}

// newRequest is r as it goes to another node, without its body.
func newRequest(r *http.Request, way *route, identity string) *http.Request {
	out := &http.Request{
		Method: http.MethodPost,
		URL:    &url.URL{Scheme: "https", Host: way.Address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery},
		Host:   way.Address,
		Header: http.Header{
			headerProof: {way.proof}, headerMethod: {r.Method}, "User-Agent": {""},
		},
	}
	if identity != "" {
		out.Header.Set(headerIdentity, identity)
	}
	for _, name := range requestHeaders {
		if v := r.Header.Values(name); len(v) > 0 {
			out.Header[name] = v
		}
	}
	return out
}

// requestHeaders are forwarded. Credentials are not among them: who the client is
// has been found out.
var requestHeaders = []string{
	"Content-Type", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions", "Sec-Websocket-Protocol",
}

// hopHeaders concern one network connection only.
var hopHeaders = []string{"Connection", "Keep-Alive", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Date"}

// relay passes an answer on. An error means that nothing has been answered yet.
func relay(w http.ResponseWriter, answer *http.Response) error {
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		return errRefused
	case http.StatusServiceUnavailable:
		return errAway
	}
	copyHeader(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	if !copyBody(w, answer) {
		panic(http.ErrAbortHandler) // the client must not take it for the whole
	}
	return nil
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
	for _, name := range hopHeaders {
		to.Del(name)
	}
}

var buffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

// copyBody reports whether all of it has been passed on.
func copyBody(w http.ResponseWriter, answer *http.Response) bool {
	buffer := buffers.Get().(*[16 << 10]byte)
	defer buffers.Put(buffer)
	rc := http.NewResponseController(w)
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	for {
		n, err := answer.Body.Read(buffer[:])
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has one
			if _, err := w.Write(buffer[:n]); err != nil {
				return false
			}
			if answer.ContentLength < 0 { // nobody knows when more comes
				_ = rc.Flush()
			}
		}
		if err != nil {
			return err == io.EOF
		}
	}
}

func tlsDialer(fingerprint string) *tls.Dialer {
	return &tls.Dialer{
		Config: pinned(fingerprint),
		NetDialer: &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3,
		}},
	}
}

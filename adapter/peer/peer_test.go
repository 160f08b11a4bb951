package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	maxBody  = 1000
	gone     = "its node is gone"
)

var secret = []byte("the secret of all nodes")

// world is a node that owns what is served, and a front that forwards to it.
type world struct {
	t         testing.TB
	listener  *Listener
	forwarder *Forwarder
	front     *httptest.Server
	target    string // node that requests are forwarded to
	identity  string
	client    *http.Client

	mu      sync.Mutex
	nodes   map[string]Node
	away    error // what look-ups answer
	back    int32 // number of look-ups after which they answer again; 0: never
	lookups atomic.Int32
}

func start(t testing.TB, handler HandlerFunc) *world {
	w := &world{t: t, target: "owner", identity: "somebody", nodes: map[string]Node{}}
	w.listen("owner", secret, handler)
	w.forwarder = NewForwarder(Options{
		Secret: secret,
		Lookup: w.lookup,
		Limits: func() (int64, time.Duration) { return maxBody, patience },
		Gone:   func(w http.ResponseWriter) { http.Error(w, gone, http.StatusBadRequest) },
		TooLarge: func(w http.ResponseWriter) {
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		},
		Logger: zaptest.NewLogger(t),
	})
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.forwarder.Forward(rw, r, w.target, w.identity)
	}))
	w.client = w.front.Client()
	t.Cleanup(func() {
		w.forwarder.Close()
		w.front.Close()
	})
	return w
}

// listen opens the listener of a node and publishes it.
func (w *world) listen(node string, secret []byte, handler HandlerFunc) {
	w.t.Helper()
	l, err := Listen(w.t.Context(), ListenOptions{
		Node: node, Secret: secret, Address: "127.0.0.1:0", Handler: handler, Logger: zaptest.NewLogger(w.t),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { w.close(l) })
	w.listener = l
	w.publish(Node{Name: node, Address: l.Address(), Fingerprint: l.Fingerprint()})
}

func (w *world) close(l *Listener) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.Close(ctx)
}

func (w *world) publish(n Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[n.Name] = n
}

func (w *world) lookup(_ context.Context, name string) (Node, bool, error) {
	asked := w.lookups.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.back != 0 && asked > w.back {
		w.away = nil
	}
	n, ok := w.nodes[name]
	return n, ok, w.away
}

func (w *world) do(method, path string, body io.Reader, header http.Header) (int, string, http.Header) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, w.front.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	answer, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(data), answer.Header
}

// show answers with what arrived.
func show(w http.ResponseWriter, r *http.Request, identity string) {
	body, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	w.Header().Set("X-Other", "kept")
	w.WriteHeader(http.StatusAccepted)
	_, _ = fmt.Fprintf(w, "%s %s?%s %q %s %v", r.Method, r.URL.Path, r.URL.RawQuery, body, identity, err)
	for name := range r.Header {
		_, _ = fmt.Fprintf(w, " %s", name)
	}
}

func TestForward(t *testing.T) {
	w := start(t, show)
	status, body, header := w.do("POST", "/a/?sid=owner.x&t=1", strings.NewReader("hello"), http.Header{
		"Content-Type": {"text/plain"}, "Authorization": {"Bearer secret"}, "Cookie": {"a=b"},
		headerIdentity: {"somebody else"}, headerMethod: {"DELETE"},
	})
	if want := `POST /a/?sid=owner.x&t=1 "hello" somebody <nil> Content-Length Content-Type`; status != http.StatusAccepted || !sameWords(body, want) {
		t.Errorf("%d %q, want %q", status, body, want)
	}
	if header.Get("X-Other") != "kept" || header.Get("Content-Type") != "text/plain; charset=UTF-8" {
		t.Errorf("headers %v", header)
	}
	w.identity = ""
	if _, body, _ = w.do("GET", "/?sid=owner.x", nil, nil); !strings.HasPrefix(body, `GET /?sid=owner.x ""  <nil>`) {
		t.Errorf("got %q", body)
	}
}

func sameWords(a, b string) bool {
	count := map[string]int{}
	for _, s := range strings.Fields(a) {
		count[s]++
	}
	for _, s := range strings.Fields(b) {
		count[s]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// An answer is passed on while it is being written, and not taken for whole when it
// breaks off.
func TestAnswersAreNotBuffered(t *testing.T) {
	more := make(chan struct{})
	w := start(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-more
		panic(http.ErrAbortHandler)
	})
	answer, err := w.client.Get(w.front.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	first := make([]byte, 5)
	if _, err := io.ReadFull(answer.Body, first); err != nil || string(first) != "first" {
		t.Fatalf("%q %v", first, err)
	}
	close(more)
	if _, err := io.ReadAll(answer.Body); err == nil {
		t.Error("an answer that broke off looks complete")
	}
}

// unsized hides the length of a body.
type unsized struct{ io.Reader }

func TestBodyLimit(t *testing.T) {
	w := start(t, show)
	for name, body := range map[string]io.Reader{
		"announced": bytes.NewReader(make([]byte, maxBody+1)),
		"streamed":  unsized{bytes.NewReader(make([]byte, maxBody+1))},
	} {
		if status, _, _ := w.do("POST", "/", body, nil); status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d", name, status)
		}
	}
	if status, _, _ := w.do("POST", "/", unsized{bytes.NewReader(make([]byte, maxBody))}, nil); status != http.StatusAccepted {
		t.Errorf("status %d", status)
	}
}

func TestNodesThatCannotBeReached(t *testing.T) {
	w := start(t, show)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close()
	w.publish(Node{Name: "silent"})
	w.publish(Node{Name: "dead", Address: closed, Fingerprint: w.listener.Fingerprint()})
	w.publish(Node{Name: "other-certificate", Address: w.listener.Address(), Fingerprint: fingerprintOf(nil)})
	// A record that points at a node under another name gets no valid proof.
	w.publish(Node{Name: "other-name", Address: w.listener.Address(), Fingerprint: w.listener.Fingerprint()})
	w.listen("other-secret", []byte("another secret"), show)
	w.listen("away", secret, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	for _, node := range []string{"unknown", "silent", "dead", "other-certificate", "other-name", "other-secret", "away"} {
		w.target = node
		if status, body, _ := w.do("POST", "/", strings.NewReader("hello"), nil); status != http.StatusBadRequest || body != gone+"\n" {
			t.Errorf("%s: %d %q", node, status, body)
		}
		if status := w.dialUpgrade(t).status; status != http.StatusBadRequest {
			t.Errorf("%s: upgrade answered %d", node, status)
		}
	}
}

// What does not come from a node is not let in.
func TestListenerRefuses(t *testing.T) {
	w := start(t, func(http.ResponseWriter, *http.Request, string) { t.Error("let in") })
	transport := &http.Transport{TLSClientConfig: pinned(w.listener.Fingerprint())}
	defer transport.CloseIdleConnections()
	valid := proof(secret, "owner", w.listener.Fingerprint())
	for name, r := range map[string]struct {
		method string
		proof  []string
	}{
		"no proof":       {"POST", nil},
		"wrong proof":    {"POST", []string{"wrong"}},
		"another's":      {"POST", []string{proof(secret, "other", w.listener.Fingerprint())}},
		"another method": {"GET", []string{valid}},
	} {
		request, err := http.NewRequestWithContext(t.Context(), r.method, "https://"+w.listener.Address(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header[headerProof] = r.proof
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, answer.StatusCode)
		}
	}
}

// A request is never sent twice: on a connection that ends before the answer it is
// unknown whether it was served.
func TestNothingIsSentAgain(t *testing.T) {
	var served atomic.Int32
	w := start(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Has("break") {
			served.Add(1)
			panic(http.ErrAbortHandler)
		}
	})
	w.do("GET", "/", nil, nil) // leaves an idle connection
	if status, _, _ := w.do("GET", "/?break", nil, nil); status != http.StatusBadRequest {
		t.Errorf("status %d", status)
	}
	if n := served.Load(); n != 1 {
		t.Errorf("served %d times", n)
	}
}

// A client that is gone ends its request at the owner.
func TestClientGoesAway(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	w := start(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.front.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := w.client.Do(request); !errors.Is(err, context.Canceled) {
		_ = answer.Body.Close()
		t.Errorf("answered, %v", err)
	}
	await(t, ended)
}

func await(t testing.TB, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatal("waited in vain")
	}
}

// EndPolls answers what is held, now and later.
func TestEndPolls(t *testing.T) {
	began := make(chan struct{})
	once := sync.OnceFunc(func() { close(began) })
	w := start(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		once()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // an answer could still get through
	})
	go func() {
		<-began
		w.forwarder.EndPolls()
	}()
	for range 2 {
		if status, _, _ := w.do("GET", "/", nil, nil); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
	}
}

// echo upgrades and sends back what it gets, until it gets "bye".
func echo(w http.ResponseWriter, r *http.Request, identity string) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
	w.Header().Set("X-Identity", identity)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = rw.Flush()
	go func() {
		defer func() { _ = conn.Close() }()
		for {
			line, err := rw.ReadString('\n')
			_, _ = conn.Write([]byte(line))
			if err != nil || line == "bye\n" {
				return
			}
		}
	}()
}

type upgraded struct {
	conn   net.Conn
	in     *bufio.Reader
	status int
	header http.Header
}

// dialUpgrade asks the front for an upgrade and sends a line behind the request at
// once.
func (w *world) dialUpgrade(t testing.TB) upgraded {
	t.Helper()
	conn, err := net.Dial("tcp", w.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, "GET /?sid=1 HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: lines\r\n\r\nearly\n")
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
	if err != nil {
		t.Fatal(err)
	}
	return upgraded{conn, in, answer.StatusCode, answer.Header}
}

func (u upgraded) expect(t testing.TB, line string) {
	t.Helper()
	if got, err := u.in.ReadString('\n'); err != nil || got != line {
		t.Fatalf("got %q %v, want %q", got, err, line)
	}
}

func (u upgraded) expectEnd(t testing.TB) {
	t.Helper()
	var timeout net.Error
	if rest, err := io.ReadAll(u.in); len(rest) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("%q %v, want the end", rest, err)
	}
}

func TestUpgrade(t *testing.T) {
	w := start(t, echo)
	u := w.dialUpgrade(t)
	if u.status != http.StatusSwitchingProtocols || u.header.Get("Upgrade") != "lines" || u.header.Get("X-Identity") != "somebody" {
		t.Fatalf("%d %v", u.status, u.header)
	}
	u.expect(t, "early\n")
	large := strings.Repeat("x", 100_000) + "\n"
	go func() { _, _ = io.WriteString(u.conn, large) }()
	u.expect(t, large)
	t.Run("the node ends it", func(t *testing.T) {
		_, _ = io.WriteString(u.conn, "bye\n")
		u.expect(t, "bye\n")
		u.expectEnd(t)
	})
	t.Run("the client ends it", func(t *testing.T) {
		u := w.dialUpgrade(t)
		u.expect(t, "early\n")
		_ = u.conn.Close()
		awaitNone(t, w.forwarder)
	})
	t.Run("the forwarder ends it", func(t *testing.T) {
		u := w.dialUpgrade(t)
		u.expect(t, "early\n")
		w.forwarder.Close()
		u.expectEnd(t)
		if status := w.dialUpgrade(t).status; status != http.StatusBadRequest {
			t.Errorf("a closed forwarder answers %d", status)
		}
	})
}

// awaitNone waits until nothing is under way.
func awaitNone(t testing.TB, f *Forwarder) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		f.group.Wait()
		close(done)
	}()
	await(t, done)
}

// Records are read once a second at most, and used for as long as they cannot be
// read again.
func TestRecords(t *testing.T) {
	w := start(t, show)
	for range 20 {
		w.do("GET", "/", nil, nil)
	}
	before := w.lookups.Load()
	if before > 5 {
		t.Errorf("%d look-ups for 20 requests", before)
	}
	w.mu.Lock()
	w.away = errors.New("the store is away")
	w.mu.Unlock()
	age := func() {
		d := &w.forwarder.nodes
		d.mu.Lock()
		for name, r := range d.records {
			r.at = r.at.Add(-2 * recordAge)
			d.records[name] = r
		}
		d.mu.Unlock()
	}
	age()
	if status, _, _ := w.do("GET", "/", nil, nil); status != http.StatusAccepted {
		t.Errorf("with the store away: %d", status)
	}
	if w.lookups.Load() == before {
		t.Error("an old record was not read again")
	}
	w.mu.Lock()
	w.away = nil
	delete(w.nodes, "owner")
	w.mu.Unlock()
	age()
	if status, _, _ := w.do("GET", "/", nil, nil); status != http.StatusBadRequest {
		t.Errorf("a node that has gone: %d", status)
	}
}

// A node that nobody knows yet is asked for again when the store does not answer.
func TestLookupIsTriedAgain(t *testing.T) {
	w := start(t, show)
	w.away = errors.New("the store is away")
	w.back = 2
	if status, _, _ := w.do("GET", "/", nil, nil); status != http.StatusAccepted {
		t.Errorf("status %d", status)
	}
}

// Names come from outside. They cost neither memory nor the store more than a bit.
func TestUnknownNames(t *testing.T) {
	w := start(t, show)
	for i := range 2000 {
		if way := w.forwarder.nodes.find(t.Context(), fmt.Sprint("name", i)); way != nil {
			t.Fatal("found")
		}
	}
	if n := w.lookups.Load(); n > 1000 {
		t.Errorf("%d look-ups", n)
	}
	if n := len(w.forwarder.nodes.records); n > maxRecords {
		t.Errorf("%d records", n)
	}
	if status, _, _ := w.do("GET", "/", nil, nil); status == http.StatusAccepted {
		return
	}
	// The names have used up what strangers may ask for: it comes back.
	deadline := time.Now().Add(patience)
	for status := 0; status != http.StatusAccepted; status, _, _ = w.do("GET", "/", nil, nil) {
		if time.Now().After(deadline) {
			t.Fatal("a real node is not found any more")
		}
	}
}

// Package wiretest speaks Engine.IO to a server under test, byte by byte, over
// loopback or over an in-memory network whose time a synctest bubble controls.
package wiretest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// Network is an HTTP server with its clients.
type Network struct {
	t      testing.TB
	dial   func(ctx context.Context) (net.Conn, error)
	client *http.Client
	base   string
}

// Loopback serves h on a loopback address until the test ends.
func Loopback(t testing.TB, h http.Handler) *Network {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	return start(t, h, ln, addr, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	})
}

// Memory serves h over synchronous pipes until the test ends.
func Memory(t testing.TB, h http.Handler) *Network {
	ln := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return start(t, h, ln, "memory.test", ln.dial)
}

func start(t testing.TB, h http.Handler, ln net.Listener, host string, dial func(context.Context) (net.Conn, error)) *Network {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, rawConnKey{}, c)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	n := &Network{t: t, dial: dial, base: "http://" + host}
	n.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}
	t.Cleanup(func() {
		n.client.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return n
}

// TLS serves h over TLS on a loopback address until the test ends.
func TLS(t testing.TB, h http.Handler) *Network {
	srv := httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}
	return &Network{t: t, client: srv.Client(), base: srv.URL, dial: dial}
}

type rawConnKey struct{}

// RawConn is the network connection under a request.
func RawConn(r *http.Request) net.Conn {
	c, _ := r.Context().Value(rawConnKey{}).(net.Conn)
	return c
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "pipe"} }

// Answer is an HTTP response, read to its end.
type Answer struct {
	Status int
	Body   string
	Header http.Header
}

// Do sends a request. The path begins with a slash.
func (n *Network) Do(method, path, body string) Answer {
	n.t.Helper()
	a, err := n.Try(context.Background(), method, path, body)
	if err != nil {
		n.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// Try is Do for requests that may fail or are cancelled.
func (n *Network) Try(ctx context.Context, method, path, body string) (Answer, error) {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, n.base+path, r)
	if err != nil {
		return Answer{}, err
	}
	res, err := n.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return Answer{Status: res.StatusCode, Body: string(b), Header: res.Header}, err
}

// Get and Post are the two halves of a polling session.
func (n *Network) Get(path string) Answer { n.t.Helper(); return n.Do(http.MethodGet, path, "") }
func (n *Network) Post(path, body string) Answer {
	n.t.Helper()
	return n.Do(http.MethodPost, path, body)
}

// Open is the content of an open packet.
type Open struct {
	SID          string   `json:"sid"`
	Upgrades     []string `json:"upgrades"`
	PingInterval int      `json:"pingInterval"`
	PingTimeout  int      `json:"pingTimeout"`
	MaxPayload   int      `json:"maxPayload"`
}

// ParseOpen decodes an open packet and insists on its exact keys.
func ParseOpen(t testing.TB, packet string) Open {
	t.Helper()
	var o Open
	dec := json.NewDecoder(strings.NewReader(strings.TrimPrefix(packet, "0")))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil || !strings.HasPrefix(packet, "0") || o.Upgrades == nil {
		t.Fatalf("not an open packet: %q (%v)", packet, err)
	}
	return o
}

// OpenPolling starts a polling session on path, which ends in a slash.
func (n *Network) OpenPolling(path string) (url string, o Open) {
	n.t.Helper()
	a := n.Get(path + "?EIO=4&transport=polling")
	if a.Status != http.StatusOK {
		n.t.Fatalf("handshake: %d %s", a.Status, a.Body)
	}
	o = ParseOpen(n.t, a.Body)
	return path + "?EIO=4&transport=polling&sid=" + o.SID, o
}

// Frame is one WebSocket frame from the server.
type Frame struct {
	Op      ws.OpCode
	Payload []byte
}

// Client is a WebSocket client that sees frames.
type Client struct {
	t    testing.TB
	Conn net.Conn
	r    *bufio.Reader
}

// Dial opens a WebSocket and fails the test if it cannot.
func (n *Network) Dial(path string) *Client {
	n.t.Helper()
	c, status, err := n.TryDial(path, nil)
	if err != nil || status != http.StatusSwitchingProtocols {
		n.t.Fatalf("dial %s: %d %v", path, status, err)
	}
	return c
}

// TryDial opens a WebSocket; early is sent together with the request. With a
// status other than 101 there is no client.
func (n *Network) TryDial(path string, early []byte) (*Client, int, error) {
	conn, err := n.dial(context.Background())
	if err != nil {
		return nil, 0, err
	}
	req := "GET " + path + " HTTP/1.1\r\nHost: test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	if _, err := conn.Write(append([]byte(req), early...)); err != nil {
		return nil, 0, err
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return nil, 0, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		_ = conn.Close()
		return nil, res.StatusCode, nil
	}
	if got := res.Header.Get("Sec-WebSocket-Accept"); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // RFC 6455, 1.3
		n.t.Errorf("accept key %q", got)
	}
	c := &Client{t: n.t, Conn: conn, r: r}
	n.t.Cleanup(func() { _ = conn.Close() })
	return c, res.StatusCode, nil
}

// Masked is a client frame.
func Masked(op ws.OpCode, fin bool, payload string) []byte {
	var b bytes.Buffer
	f := ws.MaskFrameWith(ws.NewFrame(op, fin, []byte(payload)), [4]byte{1, 2, 3, 4})
	if err := ws.WriteFrame(&b, f); err != nil {
		panic(err) // a buffer does not fail
	}
	return b.Bytes()
}

// Write sends bytes as they are.
func (c *Client) Write(b []byte) {
	c.t.Helper()
	if _, err := c.Conn.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// Text sends text messages, in one write.
func (c *Client) Text(messages ...string) {
	c.t.Helper()
	var b []byte
	for _, m := range messages {
		b = append(b, Masked(ws.OpText, true, m)...)
	}
	c.Write(b)
}

// Binary sends a binary message.
func (c *Client) Binary(payload string) { c.t.Helper(); c.Write(Masked(ws.OpBinary, true, payload)) }

// Frame reads the next frame.
func (c *Client) Frame() (Frame, error) {
	h, err := ws.ReadHeader(c.r)
	if err != nil {
		return Frame{}, err
	}
	if h.Masked || !h.Fin || h.Rsv != 0 {
		c.t.Errorf("server frame is masked, fragmented or has reserved bits: %+v", h)
	}
	p := make([]byte, h.Length)
	_, err = io.ReadFull(c.r, p)
	return Frame{h.OpCode, p}, err
}

// Next reads the next text message; pings are left out unless wanted.
func (c *Client) Next() string {
	c.t.Helper()
	for {
		f, err := c.Frame()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if f.Op != ws.OpText {
			c.t.Fatalf("frame %v %q, want text", f.Op, f.Payload)
		}
		if string(f.Payload) != "2" {
			return string(f.Payload)
		}
		c.Text("3")
	}
}

// Want reads the next text message and compares it.
func (c *Client) Want(text string) {
	c.t.Helper()
	if got := c.Next(); got != text {
		c.t.Fatalf("got %q, want %q", got, text)
	}
}

// WantBinary reads the next frame, which must be this binary message.
func (c *Client) WantBinary(payload string) {
	c.t.Helper()
	f, err := c.Frame()
	if err != nil || f.Op != ws.OpBinary || string(f.Payload) != payload {
		c.t.Fatalf("got %v %q (%v), want binary %q", f.Op, f.Payload, err, payload)
	}
}

// WantClose reads up to the close frame, answers it, hangs up, and compares the
// close status; 0 is any, or an end without a close frame.
func (c *Client) WantClose(code ws.StatusCode) {
	c.t.Helper()
	var got ws.StatusCode
	for {
		f, err := c.Frame()
		if err != nil {
			break
		}
		if f.Op == ws.OpClose {
			got, _ = ws.ParseCloseFrameData(f.Payload)
			_, _ = c.Conn.Write(Masked(ws.OpClose, true, string(f.Payload))) // the server may be gone already
			break
		}
	}
	_ = c.Conn.Close()
	if code != 0 && got != code {
		c.t.Fatalf("close status %d, want %d", got, code)
	}
}

// Opened reads the open packet.
func (c *Client) Opened() Open {
	c.t.Helper()
	return ParseOpen(c.t, c.Next())
}

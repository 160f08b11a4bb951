package engineio

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

const wsURL = path + "?EIO=4&transport=websocket"

func (r *rig) dial(t *testing.T) *wiretest.Client {
	t.Helper()
	c := r.Dial(wsURL)
	c.Opened()
	return c
}

func TestWebSocketMessages(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{SendBuffer: 4 << 20}) // room for the largest while its twin is accounted for
	c := r.dial(t)
	for _, n := range []int{0, 1, 124, 125, 126, 500, 511, 512, 600, 5000, 65534, 65535, 65536, 900000} {
		text := "4" + strings.Repeat("x", n)
		c.Text(text)
		c.Want(text)
		c.Binary(text)
		c.WantBinary(text)
	}
	for conn := <-r.opened; conn.Buffered() != 0; { // ends when all is accounted for
		runtime.Gosched()
	}
}

func TestWebSocketManyInOneSegment(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c := r.dial(t)
	var all []string
	for i := range 300 {
		all = append(all, "4"+strings.Repeat("y", i))
	}
	c.Text(all...)
	for _, text := range all {
		c.Want(text)
	}
}

func TestWebSocketFragments(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c := r.dial(t)
	c.Write(slices.Concat(
		wiretest.Masked(ws.OpText, false, "4gr\xc3"), // split inside a character
		wiretest.Masked(ws.OpPing, true, "between"),
		wiretest.Masked(ws.OpContinuation, false, "\xbc"),
		wiretest.Masked(ws.OpPong, true, ""),
		wiretest.Masked(ws.OpContinuation, true, "n"),
	))
	if f, err := c.Frame(); err != nil || f.Op != ws.OpPong || string(f.Payload) != "between" {
		t.Fatalf("%v %q %v", f.Op, f.Payload, err)
	}
	c.Want("4grün")
}

func TestWebSocketProtocolErrors(t *testing.T) {
	unmasked := ws.MustCompileFrame(ws.NewTextFrame([]byte("4x")))
	masked := func(op ws.OpCode, fin bool, payload string) []byte { return wiretest.Masked(op, fin, payload) }
	reserved := masked(ws.OpText, true, "4x")
	reserved[0] |= 0x40
	msb := append([]byte{0x81, 0xff, 0x80}, make([]byte, 11)...)
	for _, c := range []struct {
		name   string
		bytes  []byte
		code   ws.StatusCode
		reason Reason
	}{
		{"packet type", masked(ws.OpText, true, "abc"), 1002, ReasonParseError},
		{"empty text", masked(ws.OpText, true, ""), 1002, ReasonParseError},
		{"ping from the client", masked(ws.OpText, true, "2"), 1002, ReasonParseError},
		{"unmasked", unmasked, 1002, ReasonParseError},
		{"reserved bit", reserved, 1002, ReasonParseError},
		{"reserved opcode", masked(3, true, "x"), 1002, ReasonParseError},
		{"length", msb, 1002, ReasonParseError},
		{"long ping", masked(ws.OpPing, true, strings.Repeat("x", 126)), 1002, ReasonParseError},
		{"fragmented ping", masked(ws.OpPing, false, "x"), 1002, ReasonParseError},
		{"stray continuation", masked(ws.OpContinuation, true, "x"), 1002, ReasonParseError},
		{"text inside a fragmented text", slices.Concat(masked(ws.OpText, false, "4"), masked(ws.OpText, true, "4")), 1002, ReasonParseError},
		{"not UTF-8", masked(ws.OpText, true, "4\xff"), 1007, ReasonParseError},
		{"fragments not UTF-8", slices.Concat(masked(ws.OpText, false, "4\xc3"), masked(ws.OpContinuation, true, "x")), 1007, ReasonParseError},
		{"SIO-04 too big", masked(ws.OpText, true, "4"+strings.Repeat("x", 1000)), 1009, ReasonTooBig},
		{"fragments too big", slices.Concat(masked(ws.OpText, false, strings.Repeat("4", 600)), masked(ws.OpContinuation, true, strings.Repeat("x", 401))), 1009, ReasonTooBig},
		{"declared huge", []byte{0x82, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 1009, ReasonTooBig},
		{"close of one byte", masked(ws.OpClose, true, "x"), 1002, ReasonParseError},
		{"close code", masked(ws.OpClose, true, "\x03\xee"), 1002, ReasonParseError},
		{"close", masked(ws.OpClose, true, "\x03\xe8"), 1000, ReasonTransportClose},
		{"close without code", masked(ws.OpClose, true, ""), 1000, ReasonTransportClose},
		{"close packet", masked(ws.OpText, true, "1"), 1000, ReasonTransportClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, wiretest.Loopback, Options{MaxPayload: 1000})
			other := r.dial(t)
			client := r.dial(t)
			client.Write(c.bytes)
			r.wantReason(t, c.reason)
			client.WantClose(c.code)
			other.Text("4x") // CR-28: nobody else notices
			other.Want("4x")
		})
	}
}

func TestWebSocketGone(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c := r.dial(t)
	if err := c.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	r.wantReason(t, ReasonTransportError)
}

func TestWebSocketHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, suiteTimes)
		c := r.dial(t)
		begin := time.Now()
		for range 3 {
			f, err := c.Frame()
			if err != nil || string(f.Payload) != "2" {
				t.Fatalf("%q %v", f.Payload, err)
			}
			if d := time.Since(begin); d != 300*time.Millisecond {
				t.Errorf("ping after %v", d)
			}
			time.Sleep(100 * time.Millisecond)
			begin = time.Now()
			c.Text("3")
			synctest.Wait()
		}
		c.WantClose(1000)
		if d := time.Since(begin); d != 500*time.Millisecond {
			t.Errorf("dead after %v", d)
		}
		r.wantReason(t, ReasonPingTimeout)
	})
}

// A client cannot be blamed for a pong that waits behind unread messages.
func TestHeartbeatWaitsWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, suiteTimes)
		r.dial(t)
		c := <-r.opened
		c.Pause()
		time.Sleep(10 * time.Second)
		if !c.isOpen() {
			t.Fatal("closed while paused")
		}
		c.Resume()
	})
}

func TestServerClosesWebSocket(t *testing.T) {
	for reason, code := range map[Reason]ws.StatusCode{
		ReasonMoved: 1001, ReasonShutdown: 1001, ReasonServerClose: 1000, ReasonCredentials: 1008,
	} {
		r := newRig(t, wiretest.Loopback, Options{})
		client := r.dial(t)
		c := <-r.opened
		ctx := c.Context()
		if err := c.Send(Message{Data: []byte("last")}); err != nil {
			t.Fatal(err)
		}
		c.Close(reason)
		client.Want("4last")
		client.WantClose(code)
		<-ctx.Done()
		r.wantReason(t, reason)
	}
}

// wrapped hides the connection as the wrappers of an HTTP server do.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	return struct{ net.Conn }{conn}, rw, err
}

type unwrapper struct{ inner http.ResponseWriter }

func (u unwrapper) Header() http.Header         { return u.inner.Header() }
func (u unwrapper) Write(b []byte) (int, error) { return u.inner.Write(b) }
func (u unwrapper) WriteHeader(status int)      { u.inner.WriteHeader(status) }
func (u unwrapper) Unwrap() http.ResponseWriter { return u.inner }

// anchors b.4: through wrapped writers, and with the raw connection if the
// caller has it, so that the wrappers can be let go of.
func TestWrappedWriterAndRawConn(t *testing.T) {
	for _, withRaw := range []bool{false, true} {
		rec := &recorder{closed: make(chan Reason, 1), opened: make(chan *Conn, 1)}
		srv := NewServer(Options{}, func(c *Conn) Receiver {
			rec.opened <- c
			return echo{c, rec}
		})
		n := wiretest.Loopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var a Admission
			if withRaw {
				a.RawConn = wiretest.RawConn(r)
			}
			srv.Serve(unwrapper{wrapped{w}}, r, a)
		}))
		c := n.Dial(wsURL)
		c.Opened()
		c.Text("4x")
		c.Want("4x")
		if _, raw := (<-rec.opened).ws.conn.(*net.TCPConn); raw != withRaw {
			t.Errorf("raw connection: %v, want %v", raw, withRaw)
		}
		if err := c.Conn.Close(); err != nil {
			t.Error(err)
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TLS connections are written and closed through the same path.
func TestOverTLS(t *testing.T) {
	r := newRig(t, wiretest.TLS, Options{SendBuffer: 4 << 20})
	c := r.dial(t)
	for _, n := range []int{1, 600, 100_000} {
		text := "4" + strings.Repeat("x", n)
		c.Text(text)
		c.Want(text)
	}
	(<-r.opened).Close(ReasonMoved)
	c.WantClose(1001)
	url, _ := r.OpenPolling(path)
	up := r.upgrade(t, url)
	up.Text("5", "4x")
	up.Want("4x")
}

// Invariant 7: a client that does not read neither blocks the sender nor
// grows without bound, and room is reported when it reads again.
func TestSlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{SendBuffer: 10_000})
		client := r.dial(t)
		c := <-r.opened
		data := []byte(strings.Repeat("x", 1000))
		sent := 0
		for c.Send(Message{Data: data}) == nil {
			if sent++; sent > 100 {
				t.Fatal("the send buffer has no bound")
			}
		}
		if c.Buffered() > 10_000 || sent < 9 {
			t.Errorf("%d messages, %d bytes queued", sent, c.Buffered())
		}
		drained := make(chan struct{})
		c.OnDrain(func() { close(drained) })
		synctest.Wait()
		select {
		case <-drained:
			t.Fatal("drained although nothing was read")
		default:
		}
		for range sent {
			client.Want("4" + string(data))
		}
		<-drained
		if err := c.Send(Message{Data: data}); err != nil {
			t.Errorf("after draining: %v", err)
		}
		client.Want("4" + string(data))
	})
}

func TestStuckClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{WriteTimeout: 3 * time.Second})
		r.dial(t)
		c := <-r.opened
		begin := time.Now()
		if err := c.Send(Message{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		drained := make(chan struct{})
		c.OnDrain(func() { close(drained) })
		<-drained
		r.wantReason(t, ReasonSlowConsumer)
		if d := time.Since(begin); d != 3*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

func TestControlFloodIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{SendBuffer: 1000})
		r.dial(t)
		c := <-r.opened
		for i := 0; c.SendControl(Message{Data: []byte("x")}) == nil; i++ {
			if i > 100 {
				t.Fatal("control messages have no bound")
			}
		}
		r.wantReason(t, ReasonSlowConsumer)
	})
}

func TestOneLargeMessagePasses(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{SendBuffer: 1000})
	client := r.dial(t)
	c := <-r.opened
	big := strings.Repeat("s", 5_000_000) // SIO-04: a snapshot
	if err := c.Send(Message{Data: []byte(big), Tail: "!"}); err != nil {
		t.Fatal(err)
	}
	client.Want("4" + big + "!")
}

func TestSendKeepsUnitsTogether(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{SendBuffer: 1 << 20})
	client := r.dial(t)
	c := <-r.opened
	const senders, each = 4, 50
	for range senders {
		go func() {
			for range each {
				_ = c.Send(Message{Data: []byte("text")}, Message{Data: []byte("data"), Binary: true})
			}
		}()
	}
	for range senders * each {
		client.Want("4text")
		client.WantBinary("data")
	}
}

func TestCloseAllSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{})
		const n = 10
		begin := time.Now()
		ended := make(chan time.Duration, n)
		for range n {
			c := r.dial(t)
			go func() {
				c.WantClose(1001)
				ended <- time.Since(begin)
			}()
		}
		r.srv.CloseAll(ReasonMoved, 5*time.Second)
		var last time.Duration
		early := 0
		for range n {
			last = max(last, <-ended)
			if last < 3*time.Second {
				early++
			}
		}
		if last < 4*time.Second || last > 6*time.Second || early < 3 || early > 8 {
			t.Errorf("last one closed after %v, %d in the first three seconds", last, early)
		}
		synctest.Wait()
		if left := r.srv.Connections(); left != 0 {
			t.Errorf("%d connections left", left)
		}
	})
}

// A client that neither reads nor answers cannot hold up a shutdown.
func TestShutdownCutsOffAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{WriteTimeout: time.Hour})
		r.dial(t)
		c := <-r.opened
		if err := c.Send(Message{Data: []byte("never read")}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.srv.Shutdown(ctx); err == nil {
			t.Error("a shutdown that cut clients off reports no error")
		}
		if a := r.Get(path + "?EIO=4&transport=polling"); a.Status != 503 {
			t.Errorf("handshake after shutdown: %d", a.Status)
		}
	})
}

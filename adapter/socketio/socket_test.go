package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestServerDisconnects(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, s := r.join(t, "/custom")
	ctx := s.Context()
	s.Disconnect(false)
	c.Want("41/custom,")
	<-ctx.Done()
	if got := <-r.disconnected; got != ReasonServerNamespace {
		t.Errorf("reason %v", got)
	}
	if err := s.Emit("x"); !errors.Is(err, ErrClosed) {
		t.Errorf("emit after the end: %v", err)
	}
	c.Text("40")
	wantConnect(t, c, "")
	c.Next()
	(<-r.sockets).Disconnect(true)
	c.Want("41")
	c.WantClose(ws.StatusNormalClosure)
}

// The official client comes back only if it is not told to disconnect.
func TestConnectionCloseIsReconnectable(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, s := r.join(t, "")
	s.Conn().Close(ReasonCredentials)
	c.WantClose(ws.StatusPolicyViolation)
	if got := <-r.disconnected; got != ReasonCredentials || !got.Reconnects() {
		t.Errorf("reason %v", got)
	}
}

// CR-13: events of a socket are handled one at a time and in order, and those
// that came before the end are still handled.
func TestEventsAreSerialAndComplete(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	const n = 500 // more than a mailbox holds
	got := make(chan string, n)
	r.event = func(_ *Socket, e Event) { got <- string(e.Args[0]) }
	c, _ := r.join(t, "")
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`42["n",%d]`, i))
	}
	c.Text(all...)
	if err := c.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-r.disconnected
	if len(got) != n {
		t.Fatalf("%d of %d events handled before Disconnected", len(got), n)
	}
	for i := range n {
		if s := <-got; s != fmt.Sprint(i) {
			t.Fatalf("event %s, want %d", s, i)
		}
	}
}

// Connected ends before the first event, even one sent along with CONNECT.
func TestConnectedComesFirst(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	release := make(chan struct{})
	var order []string
	r.connected = func(*Socket) {
		<-release
		order = append(order, "connected")
	}
	done := make(chan struct{})
	r.event = func(*Socket, Event) {
		order = append(order, "event")
		close(done)
	}
	c := r.Dial(wsURL)
	c.Opened()
	c.Text("40", `42["x"]`)
	wantConnect(t, c, "")
	close(release)
	<-done
	if !slices.Equal(order, []string{"connected", "event"}) {
		t.Errorf("%v", order)
	}
}

// Invariant 7: a handler that is busy holds up its own client only, and that
// client's input is bounded. The heartbeat does not blame the client.
func TestBusyHandlerHoldsUpItsClientOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{})
		release := make(chan struct{})
		r.event = func(s *Socket, e Event) {
			if s.Namespace() == "/" {
				<-release
			} else {
				_ = s.Emit("quick")
			}
		}
		busy, _ := r.join(t, "")
		written := make(chan int, 1)
		go func() {
			n := 0
			for ; n < 1000; n++ {
				if _, err := busy.Conn.Write(wiretest.Masked(ws.OpText, true, `42["x"]`)); err != nil {
					break
				}
			}
			written <- n
		}()
		go func() { // the busy client reads its pings but its pongs are stuck
			for {
				if _, err := busy.Frame(); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		select {
		case n := <-written:
			t.Fatalf("%d events taken from a client whose handler is busy", n)
		default:
		}
		other, _ := r.join(t, "/custom")
		other.Text(`42/custom,["x"]`)
		other.Want(`42/custom,["quick"]`)
		close(release)
		if n := <-written; n != 1000 {
			t.Errorf("only %d events taken", n)
		}
	})
}

func TestEventRateDelaysWithoutLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{EventRate: 10})
		handled := make(chan time.Time, 100)
		r.event = func(*Socket, Event) { handled <- time.Now() }
		c, _ := r.join(t, "")
		begin := time.Now()
		go func() {
			for range 40 {
				c.Text(`42["x"]`)
			}
		}()
		var last time.Duration
		for range 40 {
			last = (<-handled).Sub(begin)
		}
		if last < 2*time.Second || last > 4*time.Second {
			t.Errorf("40 events at 10/s with a burst of 10 took %v", last)
		}
	})
}

func TestHandlerPanicEndsTheConnectionOnly(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	other, _ := r.join(t, "/custom")
	r.event = func(s *Socket, _ Event) {
		if s.Namespace() == "/" {
			panic("bug")
		}
		_ = s.Emit("fine")
	}
	c, _ := r.join(t, "")
	c.Text(`42["x"]`)
	c.WantClose(ws.StatusNormalClosure)
	other.Text(`42/custom,["x"]`)
	other.Want(`42/custom,["fine"]`)
}

func TestEmitWithAck(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxPendingAcks: 1})
	c, s := r.join(t, "/custom")
	type result struct {
		Reply
		error
	}
	done := make(chan result)
	ask := func(ctx context.Context, args ...any) {
		go func() {
			reply, err := s.EmitWithAck(ctx, "ask", args...)
			done <- result{reply, err}
		}()
	}
	ask(t.Context(), 1)
	c.Want(`42/custom,1["ask",1]`)
	if _, err := s.EmitWithAck(t.Context(), "ask"); !errors.Is(err, ErrTooManyAcks) {
		t.Errorf("over the limit: %v", err)
	}
	c.Text(`43/custom,99["nobody waits"]`, `43/custom,1["yes",{"a":2}]`)
	if got := <-done; got.error != nil || len(got.Args) != 2 || string(got.Args[1]) != `{"a":2}` {
		t.Errorf("%+v", got)
	}
	ask(t.Context(), []byte("\x07"))
	c.Want(`451-/custom,2["ask",{"_placeholder":true,"num":0}]`)
	c.WantBinary("\x07")
	c.Text(`461-/custom,2[{"_placeholder":true,"num":0}]`)
	c.Binary("\x08")
	got := <-done
	if v := got.Values(); got.error != nil || len(v) != 1 || string(v[0].([]byte)) != "\x08" {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ask(ctx)
	c.Want(`42/custom,3["ask"]`)
	cancel()
	if got := <-done; !errors.Is(got.error, context.Canceled) {
		t.Errorf("cancelled: %v", got.error)
	}
	ask(t.Context())
	c.Want(`42/custom,4["ask"]`)
	c.Text("41/custom,")
	if got := <-done; !errors.Is(got.error, ErrClosed) {
		t.Errorf("socket gone: %v", got.error)
	}
}

// An event handler may wait for an answer of the same client.
func TestEmitWithAckInsideEvent(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	r.event = func(s *Socket, e Event) {
		reply, err := s.EmitWithAck(s.Context(), "really?")
		if err == nil {
			err = e.Ack(reply.Values()...)
		}
		if err != nil {
			t.Error(err)
		}
		if e.Ack() == nil {
			t.Error("acknowledged twice")
		}
	}
	c, _ := r.join(t, "")
	c.Text(`427["x"]`)
	c.Want(`421["really?"]`)
	c.Text(`431["yes"]`)
	c.Want(`437["yes"]`)
}

func TestSendDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{SendBuffer: 5000})
		c, s := r.join(t, "")
		p := NewPacket("/", "x", []byte(`"`+strings.Repeat("y", 400)+`"`))
		n := 0
		for err := error(nil); err == nil; n++ {
			if err = s.Send(p, ""); err != nil && !errors.Is(err, ErrBufferFull) {
				t.Fatal(err)
			}
		}
		drained := make(chan struct{})
		s.OnDrain(func() { close(drained) })
		if s.Buffered() == 0 {
			t.Error("nothing is counted as queued")
		}
		for range n - 1 {
			c.Next()
		}
		<-drained
	})
}

type pongApp struct {
	*app
	calls chan string
}

func (p pongApp) Ping(*Socket) { p.calls <- "ping" }
func (p pongApp) Pong(*Socket) { p.calls <- "pong" }

// What was sent before Ping has arrived when Pong is called.
func TestPongHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{})
		calls := make(chan string, 10)
		r.srv.Handle("/pongs", pongApp{r.app, calls})
		c, _ := r.join(t, "/pongs")
		f, err := c.Frame()
		if err != nil || string(f.Payload) != "2" {
			t.Fatalf("%q %v", f.Payload, err)
		}
		if got := <-calls; got != "ping" {
			t.Fatal(got)
		}
		synctest.Wait()
		if len(calls) != 0 {
			t.Fatal("pong before the client answered")
		}
		c.Text("3")
		if got := <-calls; got != "pong" {
			t.Fatal(got)
		}
	})
}

func TestRooms(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxRooms: 2})
	c1, s1 := r.join(t, "")
	c2, s2 := r.join(t, "")
	for _, s := range []*Socket{s1, s2} {
		if err := errors.Join(s.Join("a"), s.Join("a")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s1.Join("b")); err != nil {
		t.Fatal(err)
	}
	if err := s1.Join("c"); !errors.Is(err, ErrTooManyRooms) {
		t.Errorf("third room: %v", err)
	}
	room := r.srv.ToRoom("/", "a")
	if err := room.Emit("both", 1); err != nil {
		t.Fatal(err)
	}
	c1.Want(`42["both",1]`)
	c2.Want(`42["both",1]`)
	s1.Leave("a")
	if n := room.Send(NewPacket("/", "one", nil)); n != 1 {
		t.Errorf("sent to %d", n)
	}
	c2.Want(`42["one"]`)
	s2.Disconnect(false)
	if len(room.Sockets()) != 0 || !slices.Equal(s1.Rooms(), []string{"b"}) {
		t.Errorf("room %v, rooms %v", room.Sockets(), s1.Rooms())
	}
	if err := s2.Join("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("join after the end: %v", err)
	}
	if err := r.srv.ToRoom("/nowhere", "a").Emit("x"); err != nil || len(r.srv.ToRoom("/nowhere", "a").Sockets()) != 0 {
		t.Error("a namespace without handler has members")
	}
}

// caddy-surface R5: connections are found by what admitted them.
func TestConnsAndSockets(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	_, s := r.join(t, "")
	c2, _ := r.join(t, "/custom")
	if len(r.srv.Conns()) != 2 || !slices.Contains(r.srv.Conns(), s.Conn()) || !slices.Equal(s.Conn().Sockets(), []*Socket{s}) {
		t.Errorf("%d connections", len(r.srv.Conns()))
	}
	for _, c := range r.srv.Conns() {
		if c != s.Conn() && c.Meta() == "meta" {
			c.Close(ReasonCredentials)
		}
	}
	c2.WantClose(ws.StatusPolicyViolation)
	if len(s.Conn().Sockets()) != 1 {
		t.Error("the other connection was closed too")
	}
}

// Leaving and joining again must not pile up handlers that are still busy.
func TestRejoiningIsBounded(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxNamespaces: 2})
	started := make(chan struct{}, 100)
	release := make(chan struct{})
	r.connect = func(context.Context, *Socket, json.RawMessage) (Welcome, error) {
		started <- struct{}{}
		<-release // a handler that does not look at its context
		return Welcome{}, nil
	}
	c := r.Dial(wsURL)
	c.Opened()
	for range 10 {
		c.Text("40", "41")
	}
	for range 6 {
		c.Want(`44{"message":"Too many namespaces"}`)
	}
	close(release)
	for range 4 { // who joined is told to leave, in spite of all; no reply is sent
		<-started
		<-r.disconnected
	}
	c.Text("40")
	wantConnect(t, c, "")
}

// An application may refuse by disconnecting: no CONNECT reply follows.
func TestDisconnectInsideConnect(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	r.connect = func(ctx context.Context, s *Socket, _ json.RawMessage) (Welcome, error) {
		s.Disconnect(true)
		<-ctx.Done()
		return Welcome{}, nil
	}
	c := r.Dial(wsURL)
	c.Opened()
	c.Text("40")
	f, err := c.Frame()
	if err != nil || f.Op != ws.OpClose {
		t.Errorf("%v %q %v", f.Op, f.Payload, err)
	}
	if err := c.Conn.Close(); err != nil {
		t.Error(err)
	}
	if got := <-r.disconnected; got != ReasonServerNamespace {
		t.Errorf("reason %v", got)
	}
}

func TestEmitError(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	_, s := r.join(t, "")
	if err := s.Emit("x", func() {}); err == nil {
		t.Error("a function was encoded")
	}
	if _, err := s.EmitWithAck(t.Context(), "x", func() {}); err == nil {
		t.Error("a function was encoded")
	}
}

func TestShutdownWaitsForDisconnected(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	for range 20 {
		r.join(t, "")
	}
	if err := r.srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.disconnected) != 20 {
		t.Errorf("%d of 20 told", len(r.disconnected))
	}
}

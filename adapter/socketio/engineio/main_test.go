package engineio

import (
	"context"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const path = "/engine.io/"

// recorder is an echo application that remembers what happened.
type recorder struct {
	closed chan Reason
	opened chan *Conn
}

type echo struct {
	c *Conn
	r *recorder
}

func (e echo) Message(data []byte, binary bool) { _ = e.c.Send(Message{Data: data, Binary: binary}) }
func (echo) Ping()                              {}
func (echo) Pong()                              {}
func (e echo) Close(reason Reason)              { e.r.closed <- reason }

// rig is a server under test with its network.
type rig struct {
	*wiretest.Network
	*recorder
	srv *Server
}

type network func(testing.TB, http.Handler) *wiretest.Network

func newRig(t *testing.T, open network, o Options) *rig {
	r := &rig{recorder: &recorder{closed: make(chan Reason, 1000), opened: make(chan *Conn, 1000)}}
	r.srv = NewServer(o, func(c *Conn) Receiver {
		r.opened <- c
		return echo{c, r.recorder}
	})
	r.Network = open(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.srv.Serve(w, req, Admission{Identity: req.Header.Get("X-Identity")})
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if n := r.srv.Connections(); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
	return r
}

// suiteTimes are those of the public protocol suite.
var suiteTimes = Options{PingInterval: 300 * time.Millisecond, PingTimeout: 200 * time.Millisecond}

func (r *rig) wantReason(t *testing.T, want Reason) {
	t.Helper()
	if got := <-r.closed; got != want {
		t.Fatalf("closed with %v, want %v", got, want)
	}
}

func wantAnswer(t *testing.T, a wiretest.Answer, status int, body string) {
	t.Helper()
	if a.Status != status || (body != "" && a.Body != body) {
		t.Fatalf("answer %d %q, want %d %q", a.Status, a.Body, status, body)
	}
}

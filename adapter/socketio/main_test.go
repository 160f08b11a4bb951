package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	path  = "/socket.io/"
	wsURL = path + "?EIO=4&transport=websocket"
)

// app is the application of the public suite, with hooks for more.
type app struct {
	connect      func(ctx context.Context, s *Socket, auth json.RawMessage) (Welcome, error)
	connected    func(s *Socket)
	event        func(s *Socket, e Event)
	sockets      chan *Socket
	disconnected chan Reason
}

func newApp() *app {
	return &app{sockets: make(chan *Socket, 1000), disconnected: make(chan Reason, 1000)}
}

func (a *app) Connect(ctx context.Context, s *Socket, auth json.RawMessage) (Welcome, error) {
	if a.connect != nil {
		return a.connect(ctx, s, auth)
	}
	if auth == nil {
		auth = json.RawMessage(`{}`)
	}
	s.SetData(auth)
	return Welcome{}, nil
}

func (a *app) Connected(s *Socket) {
	if a.connected != nil {
		a.connected(s)
	} else {
		_ = s.Emit("auth", s.Data())
	}
	a.sockets <- s
}

func (a *app) Event(s *Socket, e Event) {
	switch {
	case a.event != nil:
		a.event(s, e)
	case e.Name == "message":
		_ = s.Emit("message-back", e.Values()...)
	case e.Name == "message-with-ack":
		_ = e.Ack(e.Values()...)
	}
}

func (a *app) Disconnected(_ *Socket, reason Reason) { a.disconnected <- reason }

type rig struct {
	*wiretest.Network
	*app
	srv *Server
}

type network func(testing.TB, http.Handler) *wiretest.Network

func newRig(t testing.TB, open network, o Options) *rig {
	r := &rig{app: newApp(), srv: NewServer(o)}
	r.srv.Handle("/", r.app)
	r.srv.Handle("/custom", r.app)
	r.Network = open(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.srv.Serve(w, req, Admission{Meta: "meta"})
	}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.srv.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return r
}

// join connects to a namespace and reads the suite application's greeting.
func (r *rig) join(t testing.TB, namespace string) (*wiretest.Client, *Socket) {
	t.Helper()
	c := r.Dial(wsURL)
	c.Opened()
	c.Text("40" + namespace)
	wantConnect(t, c, namespace)
	if r.connected == nil {
		c.Next()
	}
	return c, <-r.sockets
}

// wantConnect reads a CONNECT reply and returns its payload.
func wantConnect(t testing.TB, c *wiretest.Client, namespace string) map[string]string {
	t.Helper()
	head := "40"
	if namespace != "" {
		head += namespace + ","
	}
	text := c.Next()
	var reply map[string]string
	if err := json.Unmarshal([]byte(strings.TrimPrefix(text, head)), &reply); err != nil || reply["sid"] == "" {
		t.Fatalf("CONNECT reply %q (%v)", text, err)
	}
	return reply
}

var errPlain = errors.New("secret detail")

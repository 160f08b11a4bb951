//go:build unix

package edge

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// reachable waits until b can forward to a: a listener opens behind the store.
func (e *env) reachable() {
	e.t.Helper()
	eventually(e.t, "other nodes know the address", func() bool {
		n, ok, err := e.core.backend.Load().shared.LookupNode(e.t.Context(), e.core.node)
		return err == nil && ok && n.Address != ""
	})
}

// request is one request of Engine.IO by long-polling.
func (e *env) request(method, query, body string, header ...string) (int, string) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, e.server.URL+"/socket.io/?EIO=4&transport=polling"+query, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := e.server.Client().Transport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error()
	}
	return answer.StatusCode, string(data)
}

// pollingHandshake opens a connection and answers its id.
func (e *env) pollingHandshake(header ...string) string {
	e.t.Helper()
	status, body := e.request(http.MethodGet, "", "", header...)
	_, rest, ok := strings.Cut(body, `"sid":"`)
	sid, _, _ := strings.Cut(rest, `"`)
	if status != http.StatusOK || !ok {
		e.t.Fatalf("handshake: %d %q", status, body)
	}
	return sid
}

const unknownSession = `{"code":1,"message":"Session ID unknown"}`

// SIO-01: each request of a polling client goes to the next node, the way over to
// WebSocket included.
func TestPollingThroughTwoNodesSIO01(t *testing.T) {
	for _, kind := range []wire.Kind{wire.Polling, wire.Upgrade} {
		t.Run(string(kind), func(t *testing.T) {
			a, b := twoNodes(t, nil)
			a.reachable()
			b.reachable()
			script := a.script("hello")
			c := chat.Open(t, chat.Options{URLs: []string{a.server.URL, b.server.URL}, Token: aliceToken, Kind: kind})
			c.Run("s1", "q1", "hello")
			var want strings.Builder
			for i := range 200 {
				script["hello"] <- fmt.Sprintf("%d ", i)
				fmt.Fprintf(&want, "%d ", i)
			}
			close(script["hello"])
			if got := chat.TextOf(c.Until("run.completed")); got != want.String() {
				t.Errorf("got %q", got)
			}
			c.Close()
			if kind == wire.Polling {
				return // no poll may have been open: then only the heartbeat tells
			}
			eventually(t, "the owner notices the end", func() bool { return a.core.sockets.count()+b.core.sockets.count() == 0 })
		})
	}
}

// The owner of a polling connection goes away in the middle of a poll: the client
// is told, connects to the other node and goes on with nothing lost or doubled.
func TestOwnerOfAPollGoesAway(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.reachable()
	script := a.script("hello")
	witness := b.client(aliceToken)
	witness.run("s1", "q1", "hello")
	script.stream(witness, "hello", "1")
	// The handshake comes to a, everything after it to b.
	first := true
	d := wire.Dialer{Kind: wire.Polling, Node: func() string {
		if first {
			first = false
			return a.server.URL
		}
		return b.server.URL
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := wire.Open(ctx, d, aliceToken, wire.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Cut()
	if err := s.Emit("resume", map[string]any{"session_id": "s1"}); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Next(); err != nil || e.Name != "resumed" {
		t.Fatalf("%v %v", e, err)
	}
	script.stream(witness, "hello", "2")
	if e, err := s.Next(); err != nil || !strings.Contains(string(e.Payload), `"2"`) {
		t.Fatalf("%s %v", e.Payload, err)
	}
	drain(t, a.core) // a poll is open, or the next one comes
	if e, err := s.Next(); err == nil {
		t.Fatalf("an event of a node that is gone: %v", e)
	}
	script.stream(witness, "hello", "3")
	d.Node = func() string { return b.server.URL }
	again, err := wire.Open(ctx, d, aliceToken, s.Identity())
	if err != nil || !again.Recovered {
		t.Fatalf("recovered %v, %v", again != nil && again.Recovered, err)
	}
	defer again.Cut()
	if e, err := again.Next(); err != nil || !strings.Contains(string(e.Payload), `"3"`) {
		t.Errorf("%s %v", e.Payload, err)
	}
	script.finish(witness, "hello")
}

// What a request of a foreign connection is answered, and by whom.
func TestForeignSessions(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.reachable()
	sid := a.pollingHandshake("X-User", "alice")
	if node, _, ok := strings.Cut(sid, sidSeparator); !ok || node != a.core.node {
		t.Fatalf("sid %q of node %q", sid, a.core.node)
	}
	for name, c := range map[string]struct {
		method, query, body string
		header              []string
		status              int
		want                string
	}{
		"SIO-02 a preflight":         {method: http.MethodOptions, query: "&sid=" + sid, status: http.StatusNoContent},
		"somebody else":              {"GET", "&sid=" + sid, "", []string{"X-User", "bob"}, 403, `{"code":4,"message":"Forbidden"}`},
		"nobody, with peer headers":  {"GET", "&sid=" + sid, "", []string{"Peer-Identity", identityOf(auth.Credentials{Identity: map[string]string{auth.DefaultPlaceholder: "alice"}})}, 403, `{"code":4,"message":"Forbidden"}`},
		"another method":             {"PUT", "&sid=" + sid, "", []string{"X-User", "alice"}, 400, unknownSession},
		"unknown session of a node":  {"GET", "&sid=" + a.core.node + ".x", "", nil, 400, unknownSession},
		"session of an unknown node": {"GET", "&sid=nobody.x", "", nil, 400, unknownSession},
		"node name that is none":     {"GET", "&sid=a%20b.x", "", nil, 400, unknownSession},
		"no node":                    {"GET", "&sid=x", "", nil, 400, unknownSession},
		"upgrade of an unknown one":  {"GET", "&sid=nobody.x", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 400, unknownSession},
		"too large a body":           {"POST", "&sid=" + sid, strings.Repeat("x", 1_000_001), []string{"X-User", "alice"}, 413, `{"code":3,"message":"Payload too large"}`},
	} {
		status, body := b.request(c.method, c.query, c.body, c.header...)
		if status != c.status || body != c.want {
			t.Errorf("%s: %d %q, want %d %q", name, status, body, c.status, c.want)
		}
	}
	if status, body := b.request(http.MethodPost, "&sid="+sid, "3", "X-User", "alice"); status != http.StatusOK || body != "ok" {
		t.Errorf("the one it belongs to: %d %q", status, body)
	}
}

// While Redis is away a node forwards to those it knows.
func TestForwardWhileRedisIsAway(t *testing.T) {
	r := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	a := start(t, sharing(r))
	b := a.startNode(nil)
	a.reachable()
	sid := a.pollingHandshake()
	post := func() (int, string) { return b.request(http.MethodPost, "&sid="+sid, "3") }
	if status, body := post(); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	r.Kill()
	eventually(t, "the node notices", func() bool { return b.core.Status() == "unavailable" })
	if status, body := post(); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	r.Restart()
	eventually(t, "the node is ready again", func() bool { return b.core.Status() == "ok" })
}

// The address follows the settings.
func TestAdvertise(t *testing.T) {
	a, b := twoNodes(t, func(s *Settings) { s.Node.Advertise = AdvertiseOff })
	sid := a.pollingHandshake()
	if status, body := b.request(http.MethodPost, "&sid="+sid, "3"); status != http.StatusBadRequest || body != unknownSession {
		t.Errorf("off: %d %s", status, body)
	}
	port := redisserver.FreePort(t)
	for _, host := range []string{"127.0.0.1", "localhost", "node.invalid"} {
		s := a.settings
		s.Node.Advertise = net.JoinHostPort(host, fmt.Sprint(port))
		attached := a.attach(s)
		eventually(t, "the address is announced", func() bool {
			n, _, err := a.core.backend.Load().shared.LookupNode(t.Context(), a.core.node)
			return err == nil && n.Address == s.Node.Advertise
		})
		conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), patience)
		if err != nil {
			t.Errorf("%s: %v", host, err)
		} else {
			_ = conn.Close()
		}
		if host != "node.invalid" { // which nobody reaches
			eventually(t, "requests are forwarded", func() bool {
				status, _ := b.request(http.MethodPost, "&sid="+sid, "3")
				return status == http.StatusOK
			})
		}
		attached.Detach()
	}
	eventually(t, "no address is announced", func() bool {
		n, _, err := a.core.backend.Load().shared.LookupNode(t.Context(), a.core.node)
		return err == nil && n.Address == ""
	})
}

// A port that is taken is tried again.
func TestAdvertisedPortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	r := redisserver.Start(t)
	a := start(t, func(s *Settings) {
		sharing(r)(s)
		s.Node.Advertise = taken.Addr().String()
	})
	a.client(aliceToken) // it serves nevertheless
	_ = taken.Close()
	a.reachable()
}

// A node that is about to go holds no polls, its own or others'.
func TestExitEndsForwardedPolls(t *testing.T) {
	a, b := twoNodes(t, nil)
	a.reachable()
	sid := a.pollingHandshake()
	held := make(chan string, 1)
	go func() {
		_, body := b.request(http.MethodGet, "&sid="+sid, "")
		held <- body
	}()
	eventually(t, "the poll is held", func() bool { return b.core.peers.forwarder.Load().Waiting() == 1 })
	b.core.BeginExit()
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("a poll is held")
	}
	if status, body := b.request(http.MethodGet, "&sid="+sid, ""); status != http.StatusOK || body != noopPacket {
		t.Errorf("a later poll: %d %q", status, body)
	}
}

func FuzzForeignNode(f *testing.F) {
	c := NewCore("embedded:x", Deps{})
	f.Add("node.random")
	f.Add(".")
	f.Add(c.node + ".x")
	f.Fuzz(func(t *testing.T, sid string) {
		node, foreign := c.foreignNode(sid)
		if foreign && (node == "" || node == c.node || len(node) > maxNodeName || !strings.HasPrefix(sid, node+sidSeparator) || strings.ContainsAny(node, "/.:{} \n")) {
			t.Errorf("%q is of node %q", sid, node)
		}
	})
}

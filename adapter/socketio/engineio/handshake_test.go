package engineio

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestHandshakePolling(t *testing.T) {
	r := newRig(t, wiretest.Loopback, suiteTimes)
	a := r.Get(path + "?EIO=4&transport=polling")
	o := wiretest.ParseOpen(t, a.Body)
	if a.Status != 200 || !slices.Equal(o.Upgrades, []string{"websocket"}) ||
		o.PingInterval != 300 || o.PingTimeout != 200 || o.MaxPayload != 1000000 || len(o.SID) != 20 {
		t.Errorf("%d %+v", a.Status, o)
	}
	if ct, cc := a.Header.Get("Content-Type"), a.Header.Get("Cache-Control"); ct != "text/plain; charset=UTF-8" || cc != "no-store" {
		t.Errorf("content type %q, cache control %q", ct, cc)
	}
}

// CR-1: a WebSocket without prior polling. CR-3: the announced numbers.
func TestHandshakeWebSocket(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{PingTimeout: 90e9})
	o := r.Dial(path + "?EIO=4&transport=websocket").Opened()
	if len(o.Upgrades) != 0 || o.PingInterval != 25000 || o.PingTimeout != 90000 || o.MaxPayload != 1000000 {
		t.Errorf("%+v", o)
	}
}

func TestHandshakeErrors(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	for _, c := range []struct {
		name, method, query string
		status              int
		body                string
	}{
		{"no EIO", "GET", "?transport=polling", 400, `{"code":5,"message":"Unsupported protocol version"}`},
		{"EIO abc", "GET", "?EIO=abc&transport=polling", 400, `{"code":5,"message":"Unsupported protocol version"}`},
		{"SIO-08 EIO 3", "GET", "?EIO=3&transport=polling", 400, `{"code":5,"message":"Unsupported protocol version"}`},
		{"no transport", "GET", "?EIO=4", 400, `{"code":0,"message":"Transport unknown"}`},
		{"SIO-08 flash", "GET", "?EIO=4&transport=flash", 400, `{"code":0,"message":"Transport unknown"}`},
		{"POST", "POST", "?EIO=4&transport=polling", 400, `{"code":2,"message":"Bad handshake method"}`},
		{"PUT", "PUT", "?EIO=4&transport=polling", 400, `{"code":2,"message":"Bad handshake method"}`},
		{"JSONP", "GET", "?EIO=4&transport=polling&j=0", 400, `{"code":3,"message":"Bad request"}`},
		{"websocket without upgrade", "GET", "?EIO=4&transport=websocket", 400, `{"code":3,"message":"Bad request"}`},
		{"SIO-01 unknown sid", "GET", "?EIO=4&transport=polling&sid=x", 400, `{"code":1,"message":"Session ID unknown"}`},
		{"SIO-02 preflight", "OPTIONS", "?EIO=4&transport=polling&sid=x", 204, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantAnswer(t, r.Do(c.method, path+c.query, ""), c.status, c.body)
		})
	}
	if n := r.srv.Connections(); n != 0 {
		t.Errorf("refused handshakes left %d connections", n)
	}
}

func TestUpgradeRequestErrors(t *testing.T) {
	srv := NewServer(Options{}, func(*Conn) Receiver { return echo{} })
	request := func(edit func(*http.Request)) *httptest.ResponseRecorder {
		req := httptest.NewRequest("GET", path+"?EIO=4&transport=websocket", nil)
		for k, v := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket",
			"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
		} {
			req.Header.Set(k, v)
		}
		edit(req)
		w := httptest.NewRecorder()
		srv.Serve(w, req, Admission{})
		return w
	}
	for _, c := range []struct {
		name   string
		edit   func(*http.Request)
		status int
	}{
		{"version 8", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Version", "8") }, 426},
		{"no key", func(r *http.Request) { r.Header.Del("Sec-WebSocket-Key") }, 400},
		{"two keys", func(r *http.Request) { r.Header.Add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==") }, 400},
		{"short key", func(r *http.Request) { r.Header.Set("Sec-WebSocket-Key", "AAAA") }, 400},
		{"method", func(r *http.Request) { r.Method = "POST" }, 400},
		{"extended CONNECT", func(r *http.Request) { r.Method = "CONNECT"; r.ProtoMajor = 2 }, 501},
		{"HTTP/2 upgrade", func(r *http.Request) { r.ProtoMajor = 2; r.ProtoMinor = 0 }, 501},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := request(c.edit)
			if w.Code != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			if c.status == 426 && w.Header().Get("Sec-WebSocket-Version") != "13" {
				t.Error("426 does not name the version")
			}
		})
	}
}

func TestSIDIsBoundToIdentity(t *testing.T) {
	var identity string
	srv := NewServer(Options{}, func(c *Conn) Receiver { return echo{c, &recorder{closed: make(chan Reason, 1)}} })
	n := wiretest.Loopback(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv.Serve(w, r, Admission{Identity: identity})
	}))
	defer func() {
		if err := srv.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	identity = "alice"
	url, _ := n.OpenPolling(path)
	identity = "bob"
	wantAnswer(t, n.Get(url), 403, `{"code":4,"message":"Forbidden"}`)
	wantAnswer(t, n.Post(url, "4x"), 403, "")
	if _, status, _ := n.TryDial(strings.Replace(url, "polling", "websocket", 1), nil); status != 403 {
		t.Errorf("upgrade by another identity: %d", status)
	}
	identity = "alice"
	wantAnswer(t, n.Post(url, "4x"), 200, "ok")
}

func TestMaxConnections(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxConnections: 1})
	url, _ := r.OpenPolling(path)
	a := r.Get(path + "?EIO=4&transport=polling")
	wantAnswer(t, a, 503, "")
	if a.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if _, status, _ := r.TryDial(path+"?EIO=4&transport=websocket", nil); status != 503 {
		t.Errorf("websocket handshake over the limit: %d", status)
	}
	wantAnswer(t, r.Post(url, "1"), 200, "ok")
	wantAnswer(t, r.Get(url), 200, "6")
	r.OpenPolling(path)
}

func TestReconfigureAppliesToNextHandshake(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxPayload: 1000})
	url, _ := r.OpenPolling(path)
	r.srv.Reconfigure(Options{MaxPayload: 5000})
	if _, o := r.OpenPolling(path); o.MaxPayload != 5000 {
		t.Errorf("announced %d", o.MaxPayload)
	}
	wantAnswer(t, r.Post(url, "4"+strings.Repeat("x", 1000)), 413, "")
}

func TestConnKeepsWhatItNeeds(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{KeepHeaders: []string{"Host", "User-Agent"}})
	r.Get(path + "?EIO=4&transport=polling&profile=a%20b&t=x&profile=c")
	c := <-r.opened
	if q := c.Query(); len(q) != 1 || !slices.Equal(q["profile"], []string{"a b", "c"}) {
		t.Errorf("query %v", q)
	}
	if c.Header("User-Agent") != "Go-http-client/1.1" || c.Header("Host") == "" || c.Header("Cookie") != "" {
		t.Errorf("headers %q", c.headers)
	}
	if c.RemoteAddr() == "" || c.ID() == "" || c.Transport() != Polling {
		t.Error("address, id or transport missing")
	}
}

// Bytes that the client sent right behind its request must not be lost.
func TestFramesBehindTheRequest(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	early := slices.Concat(wiretest.Masked(ws.OpText, true, "4one"), wiretest.Masked(ws.OpText, true, "4two"),
		wiretest.Masked(ws.OpText, true, "4"+strings.Repeat("x", 2000)))
	c, _, err := r.TryDial(path+"?EIO=4&transport=websocket", early)
	if err != nil {
		t.Fatal(err)
	}
	c.Opened()
	c.Want("4one")
	c.Want("4two")
	c.Want("4" + strings.Repeat("x", 2000))
}

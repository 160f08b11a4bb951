package caddymodule

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
)

const nextBody = "from next"

func siteWith(directive string) string {
	return ":8680 {\n" + directive + "\n\trespond `" + nextBody + "`\n}\n"
}

// Section 3: which paths are claimed.
func TestClaims(t *testing.T) {
	isolate(t)
	withPage := serve(t, siteWith("hermes_edge {\n auth off\n}"))
	noPage := serve(t, siteWith("hermes_edge {\n auth off\n page off\n}"))
	const poll = "?EIO=4&transport=polling"
	for _, c := range []struct {
		site   *site
		path   string
		status int
		body   string // prefix
	}{
		{withPage, "/socket.io/" + poll, 200, `0{"sid":`},
		{withPage, "/socket.io" + poll, 200, `0{"sid":`},
		{withPage, "/socket.io/socket.io.js", 200, nextBody},
		{withPage, "/socket.io/deeper/", 200, nextBody},
		{withPage, "/socket.iox", 200, nextBody},
		{withPage, "/chat-run", 308, ""},
		{withPage, "/chat-run/", 200, "<!doctype html>"},
		{withPage, "/chat-run/health", 200, `{"status":`},
		{withPage, "/chat-run/health/live", 200, ``},
		{withPage, "/chat-run/me", 200, `{"user":`},
		{withPage, "/chat-run/no/such/path", 404, `{`},
		{withPage, "/chat-runner", 200, nextBody},
		{withPage, "/api/health/agent", 200, `{`},
		{withPage, "/api/hermes/sessions", 200, nextBody},
		{withPage, "/", 200, nextBody},
		{noPage, "/chat-run", 200, nextBody},
		{noPage, "/chat-run/", 200, nextBody},
		{noPage, "/chat-run/app.js", 404, `{`},
		{noPage, "/chat-run/health", 200, `{"status":`},
		{noPage, "/socket.io/" + poll, 200, `0{"sid":`},
	} {
		w := c.site.get("http://chat.test" + c.path)
		if w.Code != c.status || !strings.HasPrefix(w.Body.String(), c.body) {
			t.Errorf("%s: %d %.60q, want %d %q", c.path, w.Code, w.Body.String(), c.status, c.body)
		}
	}
}

func TestForeignUpgradesGoToNext(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("hermes_edge"))
	for _, path := range []string{"/ws", "/socket.io/other", "/api/terminal"} {
		w := s.get("http://chat.test"+path, "Connection", "Upgrade", "Upgrade", "websocket",
			"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		if w.Body.String() != nextBody {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

func TestRedirectIsRelative(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("handle_path /app/* {\n hermes_edge\n}\nhandle /plain/* {\n hermes_edge\n}"))
	if w := s.get("http://chat.test/app/chat-run?a=b"); w.Code != 308 || w.Header().Get("Location") != "chat-run/?a=b" {
		t.Errorf("%d %q", w.Code, w.Header().Get("Location"))
	}
	if w := s.get("http://chat.test/app/chat-run/health"); w.Code != 200 {
		t.Errorf("under a prefix: %d %q", w.Code, w.Body)
	}
	if w := s.get("http://chat.test/plain/chat-run/health"); strings.Contains(w.Body.String(), "status") {
		t.Errorf("with the prefix kept: %d %q", w.Code, w.Body)
	}
}

// The directive stands before a catch-all handle.
func TestCatchAllHandleComesAfter(t *testing.T) {
	isolate(t)
	s := serve(t, ":8680 {\n handle {\n respond `"+nextBody+"`\n }\n hermes_edge\n}\n")
	if w := s.get("http://chat.test/chat-run/health"); !strings.Contains(w.Body.String(), "status") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if w := s.get("http://chat.test/else"); w.Body.String() != nextBody {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestNotReady(t *testing.T) {
	isolate(t)
	s, err := provision(t, adaptConfig(t, siteWith("hermes_edge")))
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, state string) {
		for _, path := range []string{"/socket.io/?EIO=4&transport=polling", "/chat-run/", "/chat-run/me", "/chat-run/sessions"} {
			w := s.get("http://chat.test" + path)
			if w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "not_ready") {
				t.Errorf("%s: %d %q", path, w.Code, w.Body)
			}
		}
		if w := s.get("http://chat.test/chat-run/health"); w.Code != 503 || strings.TrimSpace(w.Body.String()) != `{"status":"`+state+`"}` {
			t.Errorf("health: %d %q", w.Code, w.Body)
		}
		if w := s.get("http://chat.test/chat-run/health/live"); w.Code != 200 {
			t.Errorf("live: %d", w.Code)
		}
		if w := s.get("http://chat.test/else"); w.Body.String() != nextBody {
			t.Errorf("next: %d %q", w.Code, w.Body)
		}
	}
	t.Run("starting", func(t *testing.T) { check(t, "starting") })
	if err := s.app.Start(); err != nil {
		t.Fatal(err)
	}
	if w := s.get("http://chat.test/chat-run/health"); w.Code != 200 {
		t.Errorf("started: %d", w.Code)
	}
	s.app.core.core.BeginExit()
	t.Run("draining", func(t *testing.T) { check(t, "draining") })
	if err := s.app.Stop(); err != nil {
		t.Fatal(err)
	}
}

// R8: a connection that is open when the exit begins is served until it is closed.
func TestOpenConnectionIsServedWhileDraining(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("hermes_edge {\n auth off\n}"))
	const poll = "http://chat.test/socket.io/?EIO=4&transport=polling"
	_, rest, _ := strings.Cut(s.get(poll).Body.String(), `"sid":"`)
	sid, _, _ := strings.Cut(rest, `"`)
	s.app.core.core.BeginExit()
	r := httptest.NewRequest(http.MethodPost, poll+"&sid="+sid, strings.NewReader("40/chat-run,"))
	if w := s.do(r); w.Code != 200 {
		t.Errorf("post: %d %q", w.Code, w.Body)
	}
	if w := s.get(poll + "&sid=" + sid); w.Code != 200 {
		t.Errorf("poll: %d %q", w.Code, w.Body)
	}
	if w := s.get(poll); w.Code != 503 {
		t.Errorf("handshake: %d", w.Code)
	}
}

func TestOrigins(t *testing.T) {
	isolate(t)
	listed := serve(t, `{
	servers {
		trusted_proxies static 192.0.2.0/24
	}
}
`+siteWith("hermes_edge {\n origins https://chat.example.com\n}"))
	open := serve(t, siteWith("hermes_edge {\n origins *\n}"))
	const poll = "http://chat.test/socket.io/?EIO=4&transport=polling"
	for _, c := range []struct {
		name   string
		site   *site
		header []string
		status int
		allow  string
	}{
		{"none", listed, nil, 200, ""},
		{"same", listed, []string{"Origin", "http://chat.test"}, 200, ""},
		{"listed", listed, []string{"Origin", "https://chat.example.com"}, 200, "https://chat.example.com"},
		{"foreign", listed, []string{"Origin", "https://evil.example.com"}, 403, ""},
		{"null", listed, []string{"Origin", "null"}, 403, ""},
		// httptest requests come from 192.0.2.1, which is trusted here.
		{"forwarded", listed, []string{"Origin", "https://front.test", "X-Forwarded-Host", "front.test"}, 200, ""},
		{"forwarded untrusted", open, []string{"Origin", "https://front.test", "X-Forwarded-Host", "front.test"}, 200, "*"},
		{"any", open, []string{"Origin", "https://evil.example.com"}, 200, "*"},
	} {
		w := c.site.get(poll, c.header...)
		if w.Code != c.status || w.Header().Get("Access-Control-Allow-Origin") != c.allow {
			t.Errorf("%s: %d, allow %q", c.name, w.Code, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	if w := listed.get(poll, "Origin", "https://chat.example.com"); !strings.Contains(w.Header().Get("Vary"), "Origin") {
		t.Errorf("Vary is %q", w.Header().Get("Vary"))
	}
	r := httptest.NewRequest(http.MethodOptions, poll, nil)
	r.Header.Set("Origin", "https://chat.example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	r.Header.Set("Access-Control-Request-Headers", "authorization")
	if w := listed.do(r); w.Code != 204 || w.Header().Get("Access-Control-Allow-Headers") != "authorization" ||
		!strings.Contains(w.Header().Get("Access-Control-Allow-Methods"), "POST") {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
}

// A handshake that try_files has rewritten is not answered, and the log says why,
// once a minute.
func TestRewrittenHandshakeIsNotClaimed(t *testing.T) {
	isolate(t)
	core, logs := observer.New(zap.WarnLevel)
	h := &Handler{logger: zap.New(core), mount: &edge.Mount{Page: true}}
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	for _, target := range []string{
		"/socket.io/?EIO=4&transport=polling", "/socket.io/?EIO=4&transport=websocket", "/other", "/socket.io/?EIO=3",
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, &caddyhttp.Server{})
		r.URL.Path = "/index.html"
		if err := h.ServeHTTP(w, r, next); err != nil || w.Code != http.StatusTeapot {
			t.Errorf("%s: %d %v", target, w.Code, err)
		}
	}
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, "try_files") {
		t.Errorf("log: %v", logs.All())
	}
	h.warned.Add(-61)
	w := httptest.NewRecorder()
	r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/socket.io/?EIO=4", nil), caddy.NewReplacer(), w, &caddyhttp.Server{})
	r.URL.Path = "/index.html"
	if err := h.ServeHTTP(w, r, next); err != nil || logs.Len() != 2 {
		t.Errorf("a minute later: %v, %d lines", err, logs.Len())
	}
}

// CAD-02: extended CONNECT is refused, so that the client falls back to polling.
func TestExtendedConnectIsRefused(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("hermes_edge {\n auth off\n}"))
	for major, proto := range map[int]string{2: "HTTP/2.0", 3: "websocket"} {
		r := httptest.NewRequest(http.MethodConnect, "http://chat.test/socket.io/?EIO=4&transport=websocket", nil)
		r.ProtoMajor, r.Proto = major, proto
		r.URL.Path, r.URL.RawQuery = "/socket.io/", "EIO=4&transport=websocket"
		r.Header.Set(":protocol", "websocket")
		if w := s.do(r); w.Code < 400 || w.Code == http.StatusInternalServerError {
			t.Errorf("HTTP/%d: %d %q", major, w.Code, w.Body)
		}
	}
}

// auth off says so at start if it can be reached from outside.
func TestAuthOffWarnsOutsideLoopback(t *testing.T) {
	for caddyfile, want := range map[string]int{
		":8680 {\n hermes_edge {\n auth off\n }\n}\n":                                   1,
		":8680 {\n bind 127.0.0.1\n hermes_edge {\n auth off\n }\n}\n":                  0,
		":8680 {\n hermes_edge\n}\n":                                                    0,
		":8680 {\n handle /a/* {\n hermes_edge\n }\n hermes_edge {\n auth off\n }\n}\n": 1,
	} {
		isolate(t)
		s, err := provision(t, adaptConfig(t, caddyfile))
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.WarnLevel)
		s.app.logger = zap.New(core)
		s.app.warnOpen()
		if logs.Len() != want {
			t.Errorf("%s: %v", caddyfile, logs.All())
		}
	}
}

func TestRuleProfilesWithoutAGatewayWarn(t *testing.T) {
	isolate(t)
	s, err := provision(t, adaptConfig(t, siteWith("hermes_edge")))
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	h := &Handler{logger: zap.New(core), Auth: []AuthRule{
		{Type: ruleToken, Profiles: []string{"default", "*", "wrok"}},
		{Type: ruleJWT, Users: map[string][]string{"alice": {"default", "gone"}}},
		{Type: ruleCaddyUser, Profiles: []string{"{http.request.header.Groups}"}},
	}}
	h.warnProfiles(s.app)
	var named []string
	for _, entry := range logs.All() {
		named = append(named, entry.ContextMap()["profile"].(string))
	}
	if strings.Join(named, " ") != "wrok gone" {
		t.Errorf("warned about %v", named)
	}
}

func TestSharedSessions(t *testing.T) {
	for directive, want := range map[string]bool{
		"hermes_edge":                                    false,
		"hermes_edge {\n auth off\n}":                    true,
		"hermes_edge {\n auth off\n sessions private\n}": false,
		"hermes_edge {\n sessions shared\n}":             true,
	} {
		isolate(t)
		s, err := provision(t, adaptConfig(t, siteWith(directive)))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.app.settings.Mounts[0].Shared; got != want {
			t.Errorf("%s: shared %v", directive, got)
		}
	}
}

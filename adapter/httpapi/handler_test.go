package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

func TestClaims(t *testing.T) {
	for path, want := range map[string][2]bool{ // without and with the page
		"/chat-run": {false, true}, "/chat-run/": {false, true}, "/chat-run/me": {true, true}, "/chat-run/x/y": {true, true},
		"/chat-runs": {false, false}, "/chat-run.js": {false, false}, "/": {false, false}, "/api/health/agent": {true, true},
		"/api/health/agent/": {false, false}, "/api/health": {false, false}, "/socket.io/": {false, false}, "/x/chat-run/me": {false, false},
	} {
		if got := [2]bool{Claims(path, false), Claims(path, true)}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestUnknownPaths(t *testing.T) {
	o := &observed{}
	cfg := newConfig(&fakeSessions{})
	cfg.Observer = o
	for _, path := range []string{
		"/chat-run/", "/chat-run", "/chat-run/x", "/chat-run/health/", "/chat-run/health/x", "/chat-run/me/", "/chat-run/sessions/s1/",
		"/chat-run/sessions/s1/messages/", "/chat-run/sessions/s1/messages/1", "/chat-run/sessions/s1/title", "/chat-run/uploads",
		"/chat-run/runs", "/chat-run//me", "/chat-run/ME",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			wantError(t, do(New(cfg), request(method, path, "alice-token")), 404, "not_found")
		}
	}
	if slices.ContainsFunc(o.routes, func(r string) bool { return r != "unknown" }) {
		t.Errorf("routes for metrics: %q", o.routes)
	}
}

func TestMethods(t *testing.T) {
	h := New(newConfig(&fakeSessions{}))
	for path, allow := range map[string]string{
		"/chat-run/health":               "GET, HEAD, OPTIONS",
		"/chat-run/health/live":          "GET, HEAD, OPTIONS",
		"/chat-run/health/detailed":      "GET, HEAD, OPTIONS",
		"/api/health/agent":              "GET, HEAD, OPTIONS",
		"/chat-run/me":                   "GET, HEAD, OPTIONS",
		"/chat-run/sessions":             "GET, HEAD, OPTIONS",
		"/chat-run/sessions/s1":          "GET, HEAD, PATCH, DELETE, OPTIONS",
		"/chat-run/sessions/s1/messages": "GET, HEAD, OPTIONS",
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "FOO"} {
			if strings.Contains(allow, method) {
				continue
			}
			w := do(h, request(method, path, "admin-token"))
			wantError(t, w, 405, "method_not_allowed")
			if got := w.Header().Get("Allow"); got != allow {
				t.Errorf("%s %s: Allow %q, want %q", method, path, got, allow)
			}
		}
		w := do(h, request("OPTIONS", path, ""))
		if w.Code != 204 || w.Header().Get("Allow") != allow || w.Header().Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("OPTIONS %s: %d, %v", path, w.Code, w.Header())
		}
		wantAPIHeaders(t, w)
	}
}

// A real server, because it is the one that drops the body of HEAD.
func TestHead(t *testing.T) {
	srv := httptest.NewServer(New(newConfig(&fakeSessions{})))
	defer srv.Close()
	defer srv.Client().CloseIdleConnections()
	for _, path := range []string{"/chat-run/health", "/chat-run/me", "/chat-run/sessions", "/chat-run/sessions/s1", "/chat-run/x"} {
		var lengths [2]int64
		var status [2]int
		for i, method := range []string{http.MethodGet, http.MethodHead} {
			r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer alice-token")
			resp, err := srv.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.Body.Close() != nil || method == http.MethodHead && len(body) > 0 {
				t.Errorf("%s %s: body of %d bytes, %v", method, path, len(body), err)
			}
			lengths[i], status[i] = resp.ContentLength, resp.StatusCode
		}
		if lengths[0] != lengths[1] || lengths[0] <= 0 || status[0] != status[1] {
			t.Errorf("%s: lengths %v, status %v", path, lengths, status)
		}
	}
}

func TestOrigins(t *testing.T) {
	policy, err := auth.ParseOrigins("https://app.test")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeSessions{}
	cfg := newConfig(f)
	cfg.Origins = policy
	cfg.TrustForwardedHost = func(r *http.Request) bool { return r.Header.Get("X-Trusted") != "" }
	h := New(cfg)
	const listed, foreign, same, null = "Origin: https://app.test", "Origin: https://evil.test", "Origin: http://example.com", "Origin: null"
	for _, tt := range []struct {
		name     string
		method   string
		headers  []string
		status   int
		readable bool
	}{
		{"same", "DELETE", []string{same}, 204, false},
		{"none", "DELETE", nil, 204, false},
		{"listed", "DELETE", []string{listed}, 204, true},
		{"foreign", "DELETE", []string{foreign}, 403, false},
		{"null", "DELETE", []string{null}, 403, false},
		{"null, PATCH", "PATCH", []string{null}, 403, false},
		{"forwarded by a trusted proxy", "DELETE", []string{"Origin: https://outer.test", "X-Forwarded-Host: outer.test", "X-Trusted: 1"}, 204, false},
		{"forwarded by anybody", "DELETE", []string{"Origin: https://outer.test", "X-Forwarded-Host: outer.test"}, 403, false},
		{"reading, listed", "GET", []string{listed}, 200, true},
		{"reading, foreign: the browser hides the answer", "GET", []string{foreign}, 200, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(h, request(tt.method, "/chat-run/sessions/s1", "alice-token", tt.headers...))
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			if tt.status == 403 {
				wantError(t, w, 403, "origin_denied")
			}
			want := ""
			if tt.readable {
				want = "https://app.test"
			}
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("allowed origin %q, want %q", got, want)
			}
			if got := w.Header().Get("Vary"); got != "Origin" {
				t.Errorf("Vary %q", got)
			}
			if w.Header().Get("Access-Control-Allow-Credentials") != "" {
				t.Error("cookies of other origins are invited")
			}
		})
	}
	if slices.Contains(f.calls, "update s1") {
		t.Error("a refused request reached the engine")
	}
	// A refusal can be read by the listed page too, or it could not tell why.
	w := do(h, request("GET", "/chat-run/me", "", listed))
	wantError(t, w, 401, "unauthorized")
	if w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Error("the listed page cannot read the refusal")
	}
}

func TestPreflight(t *testing.T) {
	policy, err := auth.ParseOrigins("https://app.test")
	if err != nil {
		t.Fatal(err)
	}
	cfg := newConfig(&fakeSessions{})
	cfg.Origins = policy
	h := New(cfg)
	w := do(h, request("OPTIONS", "/chat-run/sessions/s1", "", "Origin: https://app.test", "Access-Control-Request-Method: PATCH"))
	for name, want := range map[string]string{
		"Access-Control-Allow-Origin": "https://app.test", "Access-Control-Allow-Methods": "GET, HEAD, PATCH, DELETE, OPTIONS",
		"Access-Control-Allow-Headers": "Authorization, Content-Type", "Access-Control-Max-Age": "600", "Vary": "Origin",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if w.Code != 204 {
		t.Errorf("status %d", w.Code)
	}
	for _, origin := range []string{"https://evil.test", "null"} {
		w := do(h, request("OPTIONS", "/chat-run/sessions/s1", "", "Origin: "+origin, "Access-Control-Request-Method: PATCH"))
		wantError(t, w, 403, "origin_denied")
		if w.Header().Get("Access-Control-Allow-Methods") != "" || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", origin, w.Header())
		}
	}
}

// fakePage has one asset, and refuses as the page does.
func fakePage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "" && r.URL.Path != "app.js":
			http.NotFound(w, r)
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "no", http.StatusMethodNotAllowed)
		default:
			w.Header().Set("Content-Security-Policy", "script-src 'self'")
			_, _ = io.WriteString(w, "page "+r.URL.Path)
		}
	})
}

func TestPage(t *testing.T) {
	o := &observed{}
	cfg := newConfig(&fakeSessions{})
	cfg.Page, cfg.Observer = fakePage(), o
	h := New(cfg)
	for path, want := range map[string]string{"/chat-run/": "page ", "/chat-run/app.js": "page app.js"} {
		w := do(h, request("GET", path, ""))
		if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Security-Policy") != "script-src 'self'" {
			t.Errorf("%s: %d %q %v", path, w.Code, w.Body, w.Header())
		}
	}
	for _, path := range []string{"/chat-run/x", "/chat-run/sessions/s1/x", "/chat-run/health/x", "/chat-run/%2e%2e/x", "/chat%2Drun/x"} {
		wantError(t, do(h, request("GET", path, "")), 404, "not_found")
	}
	w := do(h, request("POST", "/chat-run/app.js", ""))
	wantError(t, w, 405, "method_not_allowed")
	if got := w.Header().Get("Allow"); got != "GET, HEAD" || o.status != 405 {
		t.Errorf("Allow %q, status for metrics %d", got, o.status)
	}
	wantError(t, do(h, request("GET", "/chat-run/me", "")), 401, "unauthorized")
}

func TestRedirectToPage(t *testing.T) {
	cfg := newConfig(&fakeSessions{})
	cfg.Page = fakePage()
	w := do(New(cfg), request("GET", "/chat-run?x=1", ""))
	if w.Code != 308 || w.Header().Get("Location") != "chat-run/" {
		t.Errorf("status %d, Location %q, want the relative chat-run/", w.Code, w.Header().Get("Location"))
	}
	wantError(t, do(New(cfg), request("POST", "/chat-run", "")), 405, "method_not_allowed")
}

func TestObserver(t *testing.T) {
	o := &observed{}
	cfg := newConfig(&fakeSessions{})
	cfg.Observer = o
	h := New(cfg)
	for _, path := range []string{"/chat-run/me", "/chat-run/sessions/secret-id", "/chat-run/sessions/secret-id/messages", "/chat-run/secret"} {
		do(h, request("GET", path, "alice-token"))
	}
	if want := []string{"me", "sessions/{id}", "sessions/{id}/messages", "unknown"}; !slices.Equal(o.routes, want) || o.status != 404 {
		t.Errorf("routes %q, last status %d", o.routes, o.status)
	}
}

package httpapi

import (
	"net/http"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

// R17: open and short.
func TestHealth(t *testing.T) {
	for state, status := range map[string]int{
		StatusOK: 200, StatusDegraded: 200, StatusStarting: 503, StatusDraining: 503, "?": 503,
	} {
		cfg := newConfig(&fakeSessions{})
		cfg.Status = func() string { return state }
		w := do(New(cfg), request("GET", "/chat-run/health", ""))
		wantJSON(t, w, status, `{"status":"`+state+`"}`)
		if got := w.Header().Get("Retry-After"); (got == "1") != (status == 503) {
			t.Errorf("%s: Retry-After %q", state, got)
		}
		w = do(New(cfg), request("GET", "/chat-run/health/live", ""))
		wantJSON(t, w, 200, `{"status":"ok"}`)
	}
}

func TestHealthDetailed(t *testing.T) {
	h := New(newConfig(&fakeSessions{}))
	for _, path := range []string{"/chat-run/health/detailed", "/api/health/agent"} {
		wantError(t, do(h, request("GET", path, "")), 401, "unauthorized")
		wantError(t, do(h, request("GET", path, "alice-token")), 403, "admin_required")
		wantJSON(t, do(h, request("GET", path, "admin-token")), 200, `{"alive":true}`)
	}
}

func TestMe(t *testing.T) {
	cfg := newConfig(&fakeSessions{})
	wantJSON(t, do(New(cfg), request("GET", "/chat-run/me", "alice-token")), 200,
		`{"user":{"id":"alice","name":"alice","admin":false},"profiles":["default","work"],"features":{"uploads":false}}`)
	cfg.Features = nil
	wantJSON(t, do(New(cfg), request("GET", "/chat-run/me", "admin-token")), 200,
		`{"user":{"id":"root","name":"root","admin":true},"profiles":[],"features":{}}`)
}

func TestAuthErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		code   string
	}{
		{auth.ErrFailed, 401, "unauthorized"},
		{auth.ErrProfile, 403, "profile_denied"},
		{auth.ErrUnavailable, 503, "not_ready"},
	} {
		f := &fakeSessions{}
		cfg := newConfig(f)
		cfg.Authenticate = func(*http.Request) (*auth.Principal, error) { return nil, tt.err }
		for _, r := range []*http.Request{
			request("GET", "/chat-run/me", ""), request("GET", "/chat-run/sessions", ""), request("GET", "/chat-run/sessions/s1", ""),
			request("GET", "/chat-run/sessions/s1/messages", ""), request("DELETE", "/chat-run/sessions/s1", ""),
			request("PATCH", "/chat-run/sessions/s1", "", "", `{"title":"x"}`),
			request("GET", "/chat-run/health/detailed", ""), request("GET", "/api/health/agent", ""),
		} {
			w := do(New(cfg), r)
			wantError(t, w, tt.status, tt.code)
			if got := w.Header().Get("WWW-Authenticate"); (got != "") != (tt.status == 401) {
				t.Errorf("%s: WWW-Authenticate %q", r.URL, got)
			}
		}
		if len(f.calls) > 0 {
			t.Errorf("%v: the engine was asked: %q", tt.err, f.calls)
		}
	}
}

// AUT-03: a token in the address is refused, even next to a good one.
func TestTokenInAddress(t *testing.T) {
	h := New(newConfig(&fakeSessions{}))
	for _, name := range []string{"token", "access_token"} {
		wantError(t, do(h, request("GET", "/chat-run/me?"+name+"=alice-token", "")), 400, "bad_request")
		wantError(t, do(h, request("GET", "/chat-run/sessions?"+name+"=x", "alice-token")), 400, "bad_request")
	}
}

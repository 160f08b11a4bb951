package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSessions answers with its fields and remembers how it was called.
type fakeSessions struct {
	rows    []chatrun.SessionRow
	next    string
	msgs    []chatrun.Message
	hasMore bool
	err     error

	mu     sync.Mutex
	calls  []string
	user   string
	query  engine.ListQuery
	patch  engine.SessionPatch
	before int64
	limit  int
	bound  bool // the context had a deadline
}

func (f *fakeSessions) called(ctx context.Context, p *auth.Principal, what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
	f.user = p.User
	_, f.bound = ctx.Deadline()
}

func (f *fakeSessions) row(sid string) chatrun.SessionRow {
	if len(f.rows) > 0 {
		return f.rows[0]
	}
	return chatrun.SessionRow{ID: sid, Profile: "default", Source: "api_server"}
}

func (f *fakeSessions) ListSessions(ctx context.Context, p *auth.Principal, q engine.ListQuery) ([]chatrun.SessionRow, string, error) {
	f.called(ctx, p, "list")
	f.query = q
	return f.rows, f.next, f.err
}

func (f *fakeSessions) Session(ctx context.Context, p *auth.Principal, sid string) (chatrun.SessionRow, error) {
	f.called(ctx, p, "session "+sid)
	return f.row(sid), f.err
}

func (f *fakeSessions) Messages(ctx context.Context, p *auth.Principal, sid string, before int64, limit int) ([]chatrun.Message, bool, error) {
	f.called(ctx, p, "messages "+sid)
	f.before, f.limit = before, limit
	return f.msgs, f.hasMore, f.err
}

func (f *fakeSessions) UpdateSession(ctx context.Context, p *auth.Principal, sid string, patch engine.SessionPatch) (chatrun.SessionRow, error) {
	f.called(ctx, p, "update "+sid)
	f.patch = patch
	return f.row(sid), f.err
}

func (f *fakeSessions) DeleteSession(ctx context.Context, p *auth.Principal, sid string) error {
	f.called(ctx, p, "delete "+sid)
	return f.err
}

// observed records the routes for metrics.
type observed struct {
	mu     sync.Mutex
	routes []string
	status int
}

func (o *observed) HTTPRequest(route string, status int, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.routes = append(o.routes, route)
	o.status = status
}

// Users of the tests by bearer token.
var users = map[string]*auth.Principal{
	"alice-token": {User: "alice", Profiles: []string{"default", "work"}},
	"admin-token": {User: "root", Admin: true},
}

func newConfig(f *fakeSessions) Config {
	return Config{
		Sessions: f,
		Authenticate: func(r *http.Request) (*auth.Principal, error) {
			if p := users[auth.BearerToken(r.Header)]; p != nil {
				return p, nil
			}
			return nil, auth.ErrFailed
		},
		Status:   func() string { return StatusOK },
		Health:   func(context.Context) any { return map[string]any{"alive": true} },
		Features: func(*auth.Principal) any { return map[string]bool{"uploads": false} },
		Profiles: func(p *auth.Principal) []string { return p.Profiles },
	}
}

// request makes a request; lines are "Name: value" headers, the last argument of
// which may be a body after an empty line.
func request(method, target, token string, headers ...string) *http.Request {
	var body io.Reader
	if n := len(headers); n > 1 && headers[n-2] == "" {
		body = strings.NewReader(headers[n-1])
		headers = headers[:n-2]
	}
	r := httptest.NewRequest(method, target, body)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	return r
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantError checks status, code and shape of a refusal.
func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var body map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("status %d, body %q is not JSON: %v", w.Code, w.Body, err)
	}
	if w.Code != status || body["code"] != code || body["error"] == "" || len(body) != 2 {
		t.Errorf("status %d, body %v, want %d %s", w.Code, body, status, code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	wantRetry := ""
	if status == http.StatusServiceUnavailable {
		wantRetry = "1"
	}
	if got := w.Header().Get("Retry-After"); got != wantRetry {
		t.Errorf("Retry-After %q, want %q", got, wantRetry)
	}
	wantAPIHeaders(t, w)
}

func wantAPIHeaders(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// wantJSON compares a success with JSON text.
func wantJSON(t *testing.T, w *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	var got, expected any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("status %d, body %q is not JSON: %v", w.Code, w.Body, err)
	}
	if err := json.Unmarshal([]byte(want), &expected); err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(expected)
	if w.Code != status || string(a) != string(b) {
		t.Errorf("status %d, body\n%s\nwant %d\n%s", w.Code, a, status, b)
	}
	wantAPIHeaders(t, w)
}

package edge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// Tokens of the users of the tests.
const (
	aliceToken = "alice-token-0123456789"
	bobToken   = "bob-token-0123456789"
	rootToken  = "root-token-0123456789"
)

// env is a core behind a real HTTP server.
type env struct {
	t        testing.TB
	core     *Core
	gw       *fakegateway.Server
	server   *httptest.Server
	mount    atomic.Pointer[Mount] // that requests come through
	settings Settings              // of the first Attach
	attached *Attachment
}

// tokens makes the rule of static tokens: user, token, profiles…
func tokens(t testing.TB, rules ...auth.TokenRule) auth.Authenticator {
	t.Helper()
	a, _, err := auth.NewTokens(rules...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func aliceRule(profiles ...string) auth.TokenRule {
	return auth.TokenRule{User: "alice", Token: aliceToken, Grant: auth.Grant{Profiles: profiles}}
}

func bobRule(profiles ...string) auth.TokenRule {
	return auth.TokenRule{User: "bob", Token: bobToken, Grant: auth.Grant{Profiles: profiles}}
}

// newSettings is one gateway under two profiles, alice in default and work, bob in
// default only, root everywhere.
func newSettings(t testing.TB, gw *fakegateway.Server) Settings {
	t.Helper()
	root := auth.TokenRule{User: "root", Token: rootToken, Grant: auth.Grant{Admin: true}}
	return Settings{
		DataDir: t.TempDir(),
		Gateways: map[string]gateway.Config{
			"default": {BaseURL: gw.URL}, "work": {BaseURL: gw.URL},
		},
		Limits: DefaultLimits(), Timeouts: DefaultTimeouts(),
		Mounts: []*Mount{{Auth: tokens(t, aliceRule("default", "work"), bobRule("default"), root)}},
	}
}

// start makes a core with these settings and serves it.
func start(t testing.TB, change func(*Settings)) *env {
	t.Helper()
	e := &env{t: t, gw: fakegateway.Start(t, fakegateway.Options{})}
	e.settings = newSettings(t, e.gw)
	if change != nil {
		change(&e.settings)
	}
	e.serve(NewCore(e.settings.CoreKey(), Deps{Logger: zaptest.NewLogger(t)}))
	e.attached = e.attach(e.settings)
	return e
}

// serve puts a core behind an HTTP server until the test ends.
func (e *env) serve(c *Core) {
	e.core = c
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.core.ServeSocket(w, r, e.mount.Load(), Request{
			Credentials: auth.Credentials{Token: auth.BearerToken(r.Header), Identity: identityHeaders(r)},
			ClientIP:    r.RemoteAddr,
		})
	}))
	e.t.Cleanup(func() {
		drain(e.t, c)
		e.server.Close()
	})
}

// identityHeaders stands for what a web server knows.
func identityHeaders(r *http.Request) map[string]string {
	if user := r.Header.Get("X-User"); user != "" {
		return map[string]string{auth.DefaultPlaceholder: user}
	}
	return nil
}

func (e *env) attach(s Settings) *Attachment {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := e.core.Attach(ctx, s)
	if err != nil {
		e.t.Fatalf("attach: %v", err)
	}
	if len(s.Mounts) > 0 {
		e.mount.Store(s.Mounts[0])
	}
	return a
}

func drain(t testing.TB, c *Core) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.BeginExit()
	c.exit.hurry()
	c.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the core did not end within its time")
	}
}

// client connects to /chat-run as the owner of a token.
func (e *env) client(token string) *client {
	e.t.Helper()
	c := dial(e.t, e.server.URL, "")
	if refused := c.connect(map[string]any{"token": token}); refused != "" {
		e.t.Fatalf("connect refused: %s", refused)
	}
	return c
}

// holding waits until n turns wait for a release in the gateway.
func (e *env) holding(n int) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := e.gw.WaitFor(ctx, func(s fakegateway.State) bool { return s.Held == n }); err != nil {
		e.t.Fatalf("waiting for %d held turns: %v", n, err)
	}
}

// eventually waits for a state that nothing announces.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: did not happen", what)
		}
	}
}

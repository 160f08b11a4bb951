package edge

import (
	"errors"
	"os"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
)

func TestAccessToken(t *testing.T) {
	e := start(t, func(s *Settings) { s.Mounts, s.NeedsToken = []*Mount{{}}, true })
	token, err := e.core.AccessToken()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(auth.AccessTokenPath(e.settings.DataDir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, %v", info, err)
	}
	c := e.client(token)
	p, err := e.core.Authenticate(t.Context(), e.mount.Load(), auth.Credentials{Token: token})
	if err != nil || !p.Admin || p.User != auth.Owner {
		t.Errorf("principal %v, %v", p, err)
	}
	c.run("s1", "q1", "hello")
	c.next("run.completed")

	e.attach(e.settings) // a reload keeps it
	if again, err := e.core.AccessToken(); again != token || err != nil {
		t.Errorf("after a reload %v", err)
	}
	next, err := e.core.RotateAccessToken()
	if err != nil || next == token {
		t.Fatalf("rotate: %v", err)
	}
	c.awaitClose()
	if refused := dial(t, e.server.URL, "").connect(map[string]any{"token": token}); refused != chatrun.TextAuthenticationFailed {
		t.Errorf("old token: %q", refused)
	}
	e.client(next)
}

// The token exists only where a mount relies on it.
func TestNoAccessToken(t *testing.T) {
	e := start(t, nil)
	if _, err := e.core.AccessToken(); !errors.Is(err, ErrNoToken) {
		t.Errorf("AccessToken: %v", err)
	}
	if _, err := e.core.RotateAccessToken(); !errors.Is(err, ErrNoToken) {
		t.Errorf("RotateAccessToken: %v", err)
	}
	if _, err := os.Stat(auth.AccessTokenPath(e.settings.DataDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file: %v", err)
	}
}

// The HTTP API asks the same rules, with ceiling and sharing of its mount.
func TestAuthenticateForHTTP(t *testing.T) {
	e := start(t, nil)
	m := &Mount{Auth: tokens(t, aliceRule("default", "work")), Profiles: []string{"work"}, Shared: true}
	p, err := e.core.Authenticate(t.Context(), m, auth.Credentials{Token: aliceToken})
	if err != nil || !p.Shared || p.MayUse("default") || !p.MayUse("work") {
		t.Errorf("principal %+v, %v", p, err)
	}
	if got := e.core.Profiles(p); len(got) != 1 || got[0] != "work" {
		t.Errorf("profiles %v", got)
	}
	if _, err := e.core.Authenticate(t.Context(), m, auth.Credentials{Token: aliceToken, Profile: "default"}); !errors.Is(err, auth.ErrProfile) {
		t.Errorf("foreign profile: %v", err)
	}
	if _, err := e.core.Authenticate(t.Context(), m, auth.Credentials{}); !errors.Is(err, auth.ErrFailed) {
		t.Errorf("no credential: %v", err)
	}
}

package caddymodule

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const longToken = "a-token-that-is-long-enough"

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func TestTokenRules(t *testing.T) {
	isolate(t)
	t.Setenv("ALICE_TOKEN", longToken)
	s := serve(t, siteWith(`hermes_edge {
		auth {
			token alice {env.ALICE_TOKEN}
			token alice another-token-of-alice
			token root sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 {
				admin
			}
		}
	}`))
	for token, want := range map[string]string{longToken: "alice", "another-token-of-alice": "alice", "test": "root"} {
		status, user, admin, profiles := s.whoami(t, bearer(token)...)
		if status != 200 || user != want || admin != (want == "root") || !slices.Equal(profiles, []string{"default"}) {
			t.Errorf("%s: %d %q %v %v", want, status, user, admin, profiles)
		}
	}
	if status, _, _, _ := s.whoami(t, bearer("wrong")...); status != http.StatusUnauthorized {
		t.Errorf("wrong token: %d", status)
	}
	if status, _, _, _ := s.whoami(t); status != http.StatusUnauthorized {
		t.Errorf("no token: %d", status)
	}
}

// AUT-03: a token in the address is not a credential.
func TestTokenInAddressIsRefused(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("hermes_edge {\n auth token alice "+longToken+"\n}"))
	w := s.get("http://chat.test/chat-run/me?token=" + longToken)
	if w.Code != http.StatusUnauthorized && w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), longToken) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestCaddyUser(t *testing.T) {
	isolate(t)
	s := serve(t, `{
	hermes {
		gateway http://127.0.0.1:1
		gateway work http://127.0.0.1:1
	}
}
`+siteWith(`hermes_edge {
		auth caddy_user {http.request.header.Remote-User} {
			profiles {http.request.header.Remote-Groups}
		}
	}`))
	status, user, admin, profiles := s.whoami(t, "Remote-User", "bob", "Remote-Groups", "work, other")
	if status != 200 || user != "bob" || admin || !slices.Equal(profiles, []string{"work"}) {
		t.Errorf("%d %q %v %v", status, user, admin, profiles)
	}
	if status, _, _, _ := s.whoami(t); status != http.StatusUnauthorized {
		t.Errorf("no identity: %d, want closed", status)
	}
}

// R16: the token that the reference front-end signs, with its secret taken from
// the environment.
func TestFrontEndJWT(t *testing.T) {
	isolate(t)
	secret := strings.Repeat("s", 32)
	t.Setenv("AUTH_JWT_SECRET", secret)
	s := serve(t, siteWith(`hermes_edge {
		auth jwt {
			audience hermes-web-ui
			require type access
			user_claim username
			admin role super_admin
			user bob default
		}
	}`))
	sign := func(change func(jwt.MapClaims)) string {
		claims := jwt.MapClaims{
			"sub": "7", "username": "bob", "role": "user", "type": "access", "aud": "hermes-web-ui",
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		}
		change(claims)
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	status, user, admin, profiles := s.whoami(t, bearer(sign(func(jwt.MapClaims) {}))...)
	if status != 200 || user != "bob" || admin || !slices.Equal(profiles, []string{"default"}) {
		t.Errorf("bob: %d %q %v %v", status, user, admin, profiles)
	}
	if status, _, admin, _ := s.whoami(t, bearer(sign(func(c jwt.MapClaims) { c["role"] = "super_admin" }))...); status != 200 || !admin {
		t.Errorf("super_admin: %d %v", status, admin)
	}
	for name, change := range map[string]func(jwt.MapClaims){
		"refresh":  func(c jwt.MapClaims) { c["type"] = "refresh" },
		"audience": func(c jwt.MapClaims) { c["aud"] = "other" },
		"expired":  func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no exp":   func(c jwt.MapClaims) { delete(c, "exp") },
	} {
		if status, _, _, _ := s.whoami(t, bearer(sign(change))...); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// The environment never opens a site.
func TestEnvironmentOpensNothing(t *testing.T) {
	isolate(t)
	t.Setenv("AUTH_DISABLED", "true")
	t.Setenv("AUTH_TOKEN", longToken)
	s := serve(t, siteWith("hermes_edge"))
	if status, _, _, _ := s.whoami(t); status != http.StatusUnauthorized {
		t.Errorf("AUTH_DISABLED: %d", status)
	}
	if status, _, _, _ := s.whoami(t, bearer(longToken)...); status != http.StatusUnauthorized {
		t.Errorf("AUTH_TOKEN: %d", status)
	}
}

// profiles is the ceiling of a mount, for administrators too.
func TestProfilesAreTheCeiling(t *testing.T) {
	isolate(t)
	s := serve(t, `{
	hermes {
		gateway http://127.0.0.1:1
		gateway work http://127.0.0.1:1
	}
}
`+siteWith("hermes_edge {\n profiles work\n auth token root "+longToken+" {\n admin\n }\n}"))
	status, _, admin, profiles := s.whoami(t, bearer(longToken)...)
	if status != 200 || !admin || !slices.Equal(profiles, []string{"work"}) {
		t.Errorf("%d %v %v", status, admin, profiles)
	}
}

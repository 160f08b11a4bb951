package auth

import (
	"crypto/elliptic"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const jwtSecret = "a-secret-of-32-bytes-or-more-0123456789"

// sign makes a token; claims are added to a valid user and expiry, nil removes one.
func sign(t *testing.T, method jwt.SigningMethod, key any, claims map[string]any) string {
	t.Helper()
	all := jwt.MapClaims{"sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	token, err := jwt.NewWithClaims(method, all).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func hs256(t *testing.T, claims map[string]any) string {
	t.Helper()
	return sign(t, jwt.SigningMethodHS256, []byte(jwtSecret), claims)
}

func newJWT(t *testing.T, cfg JWTConfig) *JWT {
	t.Helper()
	j, warnings, err := NewJWT(cfg)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("NewJWT: %v, warnings %q", err, warnings)
	}
	return j
}

func TestJWTClaims(t *testing.T) {
	cfg := JWTConfig{
		Secrets: []string{jwtSecret}, Issuer: "https://issuer.test", Audiences: []string{"edge", "other"},
		Require:   map[string]string{"type": "access"},
		UserClaim: "username", Admin: map[string]string{"role": "super_admin", "realm.roles": "root", "boss": "true"},
		Users: map[string][]string{"carol": {"work"}},
		Grant: Grant{Profiles: []string{"base"}},
	}
	base := map[string]any{
		"iss": "https://issuer.test", "aud": "edge", "type": "access", "username": "bob", "sub": nil,
	}
	j := newJWT(t, cfg)
	for _, tt := range []struct {
		name     string
		change   map[string]any
		user     string // empty: refused
		admin    bool
		profiles []string
	}{
		{"valid", nil, "bob", false, []string{"base"}},
		{"second audience", map[string]any{"aud": []string{"x", "other"}}, "bob", false, []string{"base"}},
		{"wrong audience", map[string]any{"aud": "edge2"}, "", false, nil},
		{"no audience", map[string]any{"aud": nil}, "", false, nil},
		{"empty audience list", map[string]any{"aud": []string{}}, "", false, nil},
		{"wrong issuer", map[string]any{"iss": "https://issuer.test/"}, "", false, nil},
		{"no issuer", map[string]any{"iss": nil}, "", false, nil},
		{"wrong type", map[string]any{"type": "refresh"}, "", false, nil},
		{"no type", map[string]any{"type": nil}, "", false, nil},
		{"type in a list", map[string]any{"type": []string{"x", "access"}}, "bob", false, []string{"base"}},
		{"type of another kind", map[string]any{"type": map[string]any{"access": true}}, "", false, nil},
		{"no user", map[string]any{"username": nil}, "", false, nil},
		{"empty user", map[string]any{"username": ""}, "", false, nil},
		{"user with a control character", map[string]any{"username": "a\nb"}, "", false, nil},
		{"user is an object", map[string]any{"username": map[string]any{}}, "", false, nil},
		{"numeric user", map[string]any{"username": 1234567890123}, "1234567890123", false, []string{"base"}},
		{"numeric user beyond float64", map[string]any{"username": int64(9007199254740993)}, "9007199254740993", false, []string{"base"}},
		{"admin by role", map[string]any{"role": "super_admin"}, "bob", true, []string{"base"}},
		{"admin in nested list", map[string]any{"realm": map[string]any{"roles": []string{"a", "root"}}}, "bob", true, []string{"base"}},
		{"admin by bool", map[string]any{"boss": true}, "bob", true, []string{"base"}},
		{"role that is none", map[string]any{"role": "admin"}, "bob", false, []string{"base"}},
		{"own profiles of the user", map[string]any{"username": "carol", "profiles": []string{"x"}}, "carol", false, []string{"work"}},
		{"profiles claim", map[string]any{"profiles": []any{"x", "../y", 3, "*", "z"}}, "bob", false, []string{"x", "z"}},
		{"profiles claim as text", map[string]any{"profiles": "x, y z"}, "bob", false, []string{"x", "y", "z"}},
		{"empty profiles claim", map[string]any{"profiles": []string{}}, "bob", false, nil},
		{"profiles claim of another kind", map[string]any{"profiles": 5}, "bob", false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			claims := maps.Clone(base)
			maps.Copy(claims, tt.change)
			token := hs256(t, claims)
			if tt.user == "" {
				refused(t, j, Credentials{Token: token}, ErrFailed)
				return
			}
			p := admitted(t, j, Credentials{Token: token})
			if p.User != tt.user || p.Admin != tt.admin || !slices.Equal(p.Profiles, tt.profiles) {
				t.Errorf("%s admin %v profiles %q, want %s %v %q", p.User, p.Admin, p.Profiles, tt.user, tt.admin, tt.profiles)
			}
		})
	}
}

// AUT-06: exp is required, may be off by the leeway, and ends the connection.
func TestJWTExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJWT(t, JWTConfig{Secrets: []string{jwtSecret}})
		strict := newJWT(t, JWTConfig{Secrets: []string{jwtSecret}, Leeway: -1})
		now := time.Now()
		at := func(d time.Duration) int64 { return now.Add(d).Unix() }
		for _, tt := range []struct {
			name         string
			claims       map[string]any
			ok, okStrict bool
		}{
			{"valid", nil, true, true},
			{"no exp", map[string]any{"exp": nil}, false, false},
			{"exp is text", map[string]any{"exp": "tomorrow"}, false, false},
			{"exp is negative", map[string]any{"exp": -1}, false, false},
			{"exp is beyond time", map[string]any{"exp": 1e300}, false, false},
			{"within leeway", map[string]any{"exp": at(-29 * time.Second)}, true, false},
			{"past leeway", map[string]any{"exp": at(-31 * time.Second)}, false, false},
			{"long expired", map[string]any{"exp": at(-time.Hour)}, false, false},
			{"not yet, within leeway", map[string]any{"nbf": at(29 * time.Second)}, true, false},
			{"not yet", map[string]any{"nbf": at(31 * time.Second)}, false, false},
			{"nbf is text", map[string]any{"nbf": "x"}, false, false},
		} {
			c := Credentials{Token: hs256(t, tt.claims)}
			for a, ok := range map[*JWT]bool{j: tt.ok, strict: tt.okStrict} {
				p, err := a.Authenticate(t.Context(), c)
				if (err == nil) != ok {
					t.Errorf("%s, leeway %v: %v, want ok %v", tt.name, a.claims.leeway, err, ok)
				}
				if err == nil && p.Expired(now) {
					t.Errorf("%s: admitted, and expired at once", tt.name)
				}
			}
		}
		p := admitted(t, j, Credentials{Token: hs256(t, map[string]any{"exp": at(5 * time.Second)})})
		if want := time.Unix(at(35*time.Second), 0); !p.Expires.Equal(want) {
			t.Errorf("Expires %v, want %v", p.Expires, want)
		}
	})
}

func TestJWTMalformed(t *testing.T) {
	j := newJWT(t, JWTConfig{Secrets: []string{jwtSecret}})
	valid := hs256(t, nil)
	parts := strings.Split(valid, ".")
	for _, token := range []string{
		"", ".", "..", "...", "a.b.c", parts[0] + "." + parts[1], valid + ".x", valid + "=", valid[:len(valid)-1], " " + valid,
		parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString([]byte("x")),
		parts[0] + ".!!." + parts[2], "eyJ." + parts[1] + "." + parts[2],
		valid + strings.Repeat("A", maxToken), strings.Repeat(".", maxToken),
	} {
		refused(t, j, Credentials{Token: token}, ErrFailed)
	}
}

// R5: a connection outlives the arrival of a key and changes of grants; it ends
// with its own key and with a claim it does not meet any more.
func TestJWTReview(t *testing.T) {
	cfg := JWTConfig{Secrets: []string{jwtSecret}, Audiences: []string{"edge"}}
	p := admitted(t, newJWT(t, cfg), Credentials{Token: hs256(t, map[string]any{"aud": "edge", "role": "x"})})

	granted := cfg
	granted.Secrets = []string{jwtSecret + "-next", jwtSecret}
	granted.Users = map[string][]string{"alice": {"work"}}
	granted.Admin = map[string]string{"role": "x"}
	q, ok := Review(newJWT(t, granted), p)
	if !ok || !q.Admin || !slices.Equal(q.Profiles, []string{"work"}) || !q.Expires.Equal(p.Expires) || !q.Same(p) {
		t.Errorf("new grants: %+v, %v", q, ok)
	}
	if again, ok := Review(newJWT(t, cfg), q); !ok || again.Admin {
		t.Errorf("grants taken back: %+v, %v", again, ok)
	}
	for name, change := range map[string]func(*JWTConfig){
		"key":      func(c *JWTConfig) { c.Secrets = []string{jwtSecret + "-next"} },
		"audience": func(c *JWTConfig) { c.Audiences = []string{"other"} },
		"issuer":   func(c *JWTConfig) { c.Issuer = "x" },
		"require":  func(c *JWTConfig) { c.Require = map[string]string{"a": "b"} },
		"user":     func(c *JWTConfig) { c.UserClaim = "username" },
	} {
		changed := cfg
		change(&changed)
		if _, ok := Review(newJWT(t, changed), p); ok {
			t.Errorf("%s changed and the rule is still the same", name)
		}
	}
	if _, ok := Review(newJWT(t, cfg), &Principal{Rule: p.Rule}); ok {
		t.Error("a principal without claims passes")
	}
}

func TestNewJWTRefuses(t *testing.T) {
	dir := t.TempDir()
	private := writePEM(t, &pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("x")})
	p224 := writePEM(t, publicBlock(t, &ecKey(t, elliptic.P224()).PublicKey))
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]JWTConfig{
		"no key":          {},
		"empty secret":    {Secrets: []string{jwtSecret, ""}},
		"missing file":    {PublicKeys: []string{filepath.Join(dir, "none")}},
		"no PEM":          {PublicKeys: []string{text}},
		"private key":     {PublicKeys: []string{private}},
		"unusable curve":  {PublicKeys: []string{p224}},
		"bad grant":       {Secrets: []string{jwtSecret}, Grant: Grant{Profiles: []string{"../x"}}},
		"bad user grants": {Secrets: []string{jwtSecret}, Users: map[string][]string{"a": {"X"}}},
	} {
		if _, _, err := NewJWT(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), jwtSecret) {
			t.Errorf("%s: the error holds the secret", name)
		}
	}
	if _, warnings, err := NewJWT(JWTConfig{Secrets: []string{"short"}}); err != nil || len(warnings) != 1 || strings.Contains(warnings[0], `"short"`) {
		t.Errorf("short secret: %q, %v", warnings, err)
	}
}

// R16, chat-run 11.1: the reference front-end's own token signs in with the rule
// that the documentation gives for it.
func TestJWTOfReferenceFrontEnd(t *testing.T) {
	j := newJWT(t, JWTConfig{
		Secrets: []string{jwtSecret}, Audiences: []string{"hermes-web-ui"}, Require: map[string]string{"type": "access"},
		UserClaim: "username", Admin: map[string]string{"role": "super_admin"}, Users: map[string][]string{"carol": {"work"}},
	})
	token := func(change map[string]any) string {
		claims := map[string]any{"aud": "hermes-web-ui", "type": "access", "sub": "3", "username": "carol", "role": "admin"}
		maps.Copy(claims, change)
		return hs256(t, claims)
	}
	p := admitted(t, j, Credentials{Token: token(nil)})
	if p.User != "carol" || p.Admin || !slices.Equal(p.Profiles, []string{"work"}) {
		t.Errorf("role admin: %+v", p)
	}
	p = admitted(t, j, Credentials{Token: token(map[string]any{"role": "super_admin", "username": "root"})})
	if p.User != "root" || !p.Admin {
		t.Errorf("role super_admin: %+v", p)
	}
	for _, change := range []map[string]any{
		{"aud": "x"}, {"aud": nil}, {"type": "refresh"}, {"type": nil}, {"username": nil}, {"username": ""}, {"exp": nil}, {"exp": 1},
	} {
		refused(t, j, Credentials{Token: token(change)}, ErrFailed)
	}
	// The plain server token is not accepted on the socket.
	refused(t, j, Credentials{Token: jwtSecret}, ErrFailed)
}

func FuzzJWT(f *testing.F) {
	j, _, err := NewJWT(JWTConfig{Secrets: []string{jwtSecret}})
	if err != nil {
		f.Fatal(err)
	}
	valid, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "a", "exp": int64(1) << 40}).SignedString([]byte(jwtSecret))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{valid, "", "..", "a.b.c", valid + "=", valid[:20], "eyJhbGciOiJub25lIn0.e30."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := j.Authenticate(t.Context(), Credentials{Token: token})
		// Nobody can sign but the seed: whatever is admitted carries its content.
		if err == nil && (p.User != "a" || token != valid) {
			t.Errorf("%q admitted as %+v", token, p)
		}
		if err != nil && p != nil {
			t.Errorf("%q: a principal with an error", token)
		}
	})
}

package auth

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// R16, chat-run 11.1: the reference front-end's own token signs in.
func TestWebUIJWT(t *testing.T) {
	cfg := WebUIJWT(jwtSecret)
	cfg.Users = map[string][]string{"carol": {"work"}}
	j := newJWT(t, cfg)
	token := func(change map[string]any) string {
		claims := map[string]any{"aud": "hermes-web-ui", "type": "access", "sub": "3", "username": "carol", "role": "admin"}
		for k, v := range change {
			claims[k] = v
		}
		return hs256(t, claims)
	}
	p := admitted(t, j, Credentials{Token: token(nil)})
	if p.User != "carol" || p.Admin || !slices.Equal(p.Profiles, []string{"work"}) {
		t.Errorf("admin role: %+v", p)
	}
	if p := admitted(t, j, Credentials{Token: token(map[string]any{"role": "super_admin", "username": "root"})}); !p.Admin || p.User != "root" {
		t.Errorf("super_admin: %+v", p)
	}
	for _, change := range []map[string]any{
		{"aud": "x"}, {"aud": nil}, {"type": "refresh"}, {"type": nil}, {"sub": ""}, {"sub": nil}, {"username": nil}, {"username": ""},
		{"role": nil}, {"exp": nil}, {"exp": 1},
	} {
		refused(t, j, Credentials{Token: token(change)}, ErrFailed)
	}
	// The plain server token is not accepted on the socket.
	refused(t, j, Credentials{Token: jwtSecret}, ErrFailed)
}

func TestWebUISecret(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, empty, missing := write("token", " from-file\n"), write("empty", "\n"), filepath.Join(dir, "missing")
	for _, tt := range []struct {
		name           string
		env            map[string]string
		file           string
		secret, source string
	}{
		{"first", map[string]string{"AUTH_JWT_SECRET": "a", "AUTH_TOKEN": "b"}, file, "a", "AUTH_JWT_SECRET"},
		{"second", map[string]string{"AUTH_JWT_SECRET": " ", "AUTH_TOKEN": "b"}, file, "b", "AUTH_TOKEN"},
		{"file", nil, file, "from-file", "file"},
		{"nothing", nil, "", "", ""},
		{"missing file", nil, missing, "", ""},
		{"empty file", nil, empty, "", ""},
		{"directory", nil, dir, "", ""},
		{"disabled is no word of ours", map[string]string{"AUTH_DISABLED": "1"}, "", "", ""},
	} {
		secret, source, err := WebUISecret(func(name string) string { return tt.env[name] }, tt.file)
		if secret != tt.secret || source != tt.source || (err == nil) != (tt.secret != "") {
			t.Errorf("%s: %q from %q, %v", tt.name, secret, source, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "auth: jwt: ") {
			t.Errorf("%s: error %v", tt.name, err)
		}
	}
}

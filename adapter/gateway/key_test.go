package gateway

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/hermeshome"
)

// caddy-surface 1.1: where the key comes from.
func TestFindKey(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("API_SERVER_KEY=from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home, err := hermeshome.Locate(dir, hermeshome.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	both := map[string]string{"HERMES_WEBUI_GATEWAY_API_KEY": "first", "API_SERVER_KEY": "second"}
	tests := []struct {
		name, option string
		env          map[string]string
		base         string
		want         Key
	}{
		{"option", " opt ", both, "http://localhost:1", Key{"opt", "api_key"}},
		{"first variable", "", both, "", Key{"first", "HERMES_WEBUI_GATEWAY_API_KEY"}},
		{"second variable", "", map[string]string{"API_SERVER_KEY": "second"}, "", Key{"second", "API_SERVER_KEY"}},
		{"file, loopback name", "", nil, "http://localhost:1", Key{"from-file", "hermes home .env"}},
		{"file, loopback address", "", nil, "http://[::1]:1", Key{"from-file", "hermes home .env"}},
		{"no file for another host", "", nil, "http://10.0.0.1:1", Key{}},
		{"no file for a host that looks like loopback", "", nil, "http://127.0.0.1.evil.example", Key{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			base, err := ParseBaseURL(test.base)
			if err != nil {
				t.Fatal(err)
			}
			got, err := FindKey(KeyLookup{
				Configured: test.option, Home: home, BaseURL: base, Profile: "default",
				Getenv: func(name string) string { return test.env[name] },
			})()
			if err != nil || got.Value != test.want.Value || got.Source != test.want.Source {
				t.Errorf("got %q from %q, %v", got.Value, got.Source, err)
			}
		})
	}
	bad := FindKey(KeyLookup{Home: home, Profile: "../x", BaseURL: mustURL(t), Getenv: func(string) string { return "" }})
	if _, err := bad(); err == nil {
		t.Error("a profile name that leaves the home was accepted")
	}
}

func mustURL(t *testing.T) *url.URL {
	t.Helper()
	u, err := ParseBaseURL("")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// GW-6
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 3, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, " 3 ": 3 * time.Second, "-1": 0, "x": 0, "999999": maxRetryAfter, "99999999999999": 0,
		"Mon, 03 Aug 2026 12:00:05 GMT": 5 * time.Second, "Mon, 03 Aug 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

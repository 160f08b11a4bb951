package auth

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestOriginPolicy(t *testing.T) {
	same := OriginPolicy{}
	listed, err := ParseOrigins("https://Chat.Example.com", "http://a.test:8080/", "capacitor://localhost")
	if err != nil {
		t.Fatal(err)
	}
	anyPage, err := ParseOrigins("*")
	if err != nil || !anyPage.Any() || listed.Any() {
		t.Fatalf("ParseOrigins(*): %+v, %v", anyPage, err)
	}
	for _, tt := range []struct {
		name      string
		policy    OriginPolicy
		host      string
		forwarded string
		trusted   bool
		origins   []string
		echo      string
		ok        bool
	}{
		{"no origin", same, "edge.test", "", false, nil, "", true},
		{"same", same, "edge.test", "", false, []string{"http://edge.test"}, "", true},
		{"same, case", same, "Edge.Test", "", false, []string{"http://eDge.tEst"}, "", true},
		{"same, port", same, "edge.test:8680", "", false, []string{"http://edge.test:8680"}, "", true},
		{"same, TLS ended in front", same, "edge.test", "", false, []string{"https://edge.test"}, "", true},
		{"same, default port written", same, "edge.test:443", "", false, []string{"https://edge.test"}, "", true},
		{"same, IPv6", same, "[::1]:8680", "", false, []string{"http://[::1]:8680"}, "", true},
		{"other port", same, "edge.test:8680", "", false, []string{"http://edge.test:8681"}, "", false},
		{"port missing", same, "edge.test:8680", "", false, []string{"http://edge.test"}, "", false},
		{"port 80 is not the default of https", same, "edge.test", "", false, []string{"https://edge.test:80"}, "", false},
		{"other host", same, "edge.test", "", false, []string{"http://evil.test"}, "", false},
		{"suffix", same, "edge.test", "", false, []string{"http://edge.test.evil"}, "", false},
		{"user info", same, "edge.test", "", false, []string{"http://edge.test@evil.test"}, "", false},
		{"null", same, "edge.test", "", false, []string{"null"}, "", false},
		{"null against *", anyPage, "edge.test", "", false, []string{"null"}, "", false},
		{"empty", same, "edge.test", "", false, []string{""}, "", false},
		{"empty against an empty host", same, "", "", true, []string{"http://"}, "", false},
		{"two headers", same, "edge.test", "", false, []string{"http://edge.test", "http://evil.test"}, "", false},
		{"with a path", same, "edge.test", "", false, []string{"http://edge.test/x"}, "", false},
		{"forwarded, trusted", same, "10.0.0.1", "edge.test, inner", true, []string{"https://edge.test"}, "", true},
		{"forwarded, not trusted", same, "10.0.0.1", "edge.test", false, []string{"https://edge.test"}, "", false},
		{"listed", listed, "edge.test", "", false, []string{"https://chat.example.com"}, "https://chat.example.com", true},
		{"listed, default port", listed, "edge.test", "", false, []string{"https://chat.example.com:443"}, "https://chat.example.com:443", true},
		{"listed, port", listed, "edge.test", "", false, []string{"http://a.test:8080"}, "http://a.test:8080", true},
		{"listed app", listed, "edge.test", "", false, []string{"capacitor://localhost"}, "capacitor://localhost", true},
		{"listed, other scheme", listed, "edge.test", "", false, []string{"http://chat.example.com"}, "", false},
		{"listed, same origin too", listed, "edge.test", "", false, []string{"http://edge.test"}, "", true},
		{"any", anyPage, "edge.test", "", false, []string{"http://evil.test"}, "*", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &http.Request{Host: tt.host, Header: http.Header{}}
			if tt.origins != nil {
				r.Header["Origin"] = tt.origins
			}
			if tt.forwarded != "" {
				r.Header.Set("X-Forwarded-Host", tt.forwarded)
			}
			echo, ok := tt.policy.Allowed(r, tt.trusted)
			if echo != tt.echo || ok != tt.ok {
				t.Errorf("Allowed = %q, %v, want %q, %v", echo, ok, tt.echo, tt.ok)
			}
		})
	}
}

func TestParseOriginsRefuses(t *testing.T) {
	for _, s := range []string{
		"", "chat.example.com", "https://", "https://*.example.com", "https://a.test/path", "https://a.test?x", "https://a.test#x",
		"https://u:p@a.test", "null", "//a.test", "https://a.test,https://b.test", "mailto:a@b",
	} {
		if _, err := ParseOrigins(s); err == nil {
			t.Errorf("%q accepted", s)
		}
	}
}

func TestOriginHeaders(t *testing.T) {
	listed, err := ParseOrigins("https://a.test")
	if err != nil {
		t.Fatal(err)
	}
	anyPage, err := ParseOrigins("*")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		policy OriginPolicy
		origin string
		vary   []string
	}{
		{"same", OriginPolicy{}, "", []string{"Accept"}},
		{"listed", listed, "https://a.test", []string{"Accept", "Origin"}},
		{"listed, none sent", listed, "", []string{"Accept", "Origin"}},
		{"any", anyPage, "*", []string{"Accept"}},
	} {
		h := http.Header{"Vary": {"Accept"}}
		tt.policy.SetHeaders(h, tt.origin)
		if got := h.Get("Access-Control-Allow-Origin"); got != tt.origin {
			t.Errorf("%s: allowed %q, want %q", tt.name, got, tt.origin)
		}
		if got := h.Values("Vary"); !slices.Equal(got, tt.vary) {
			t.Errorf("%s: Vary %q, want %q", tt.name, got, tt.vary)
		}
	}
}

func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"http://edge.test", "https://a.test", "null", "", "http://edge.test@evil.test", "http://[::1]", "//a", "http://a.test:"} {
		f.Add(s)
	}
	listed, err := ParseOrigins("https://a.test")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, origin string) {
		r := &http.Request{Host: "edge.test", Header: http.Header{"Origin": {origin}}}
		echo, ok := listed.Allowed(r, true)
		if !ok {
			return
		}
		// Whatever is admitted ends with one of the two hosts, and its port if any.
		host := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSuffix(origin, "/")), ":443"), ":80")
		if !strings.HasSuffix(host, "://edge.test") && host != "https://a.test" || strings.ContainsAny(echo, "\r\n") {
			t.Errorf("%q admitted, echo %q", origin, echo)
		}
	})
}

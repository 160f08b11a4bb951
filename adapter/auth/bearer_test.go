package auth

import (
	"net/http"
	"strings"
	"testing"
)

func TestBearerToken(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    string
	}{
		{nil, ""},
		{[]string{"Bearer abc"}, "abc"},
		{[]string{"bearer abc"}, "abc"},
		{[]string{"BEARER   abc  "}, "abc"},
		{[]string{"Bearer"}, ""},
		{[]string{"Bearer "}, ""},
		{[]string{"Bearerabc"}, ""},
		{[]string{"abc"}, ""},
		{[]string{"Basic YTpi"}, ""},
		{[]string{"Bearer a b"}, ""},
		{[]string{"Bearer a\tb"}, ""},
		{[]string{"Bearer a\x00b"}, ""},
		{[]string{"Bearer ä"}, ""},
		{[]string{"Bearer a", "Bearer b"}, ""},
		{[]string{"Basic YTpi", "Bearer b"}, ""},
		{[]string{"Bearer " + strings.Repeat("a", maxToken)}, ""},
	} {
		h := http.Header{}
		if tt.headers != nil {
			h["Authorization"] = tt.headers
		}
		if got := BearerToken(h); got != tt.want {
			t.Errorf("%.30q: %.30q, want %q", tt.headers, got, tt.want)
		}
	}
}

func FuzzBearerToken(f *testing.F) {
	for _, s := range []string{"", "Bearer abc", "bearer  x ", "Basic YTpi", "Bearer a\x00", "Bearer a, Bearer b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token := BearerToken(http.Header{"Authorization": {header}})
		if !strings.Contains(header, token) || strings.ContainsAny(token, " \t\r\n\x00") || len(token) > maxToken {
			t.Errorf("%q gives %q", header, token)
		}
	})
}

package gateway

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// GW-2, GW-48, AUT-03, AUT-08
func TestRedact(t *testing.T) {
	tests := []struct{ in, want string }{
		{"Error code: 503 - upstream overloaded", "Error code: 503 - upstream overloaded"},
		{"key sk-proj-abcDEF123456_x is bad", "key *** is bad"},
		{"Authorization: Bearer abc.def-123=", "Authorization: *** ***"},
		{"used bearer abcdefgh", "used bearer ***"},
		{"redis://user:pw@cache/0 failed", "redis://***@cache/0 failed"},
		{"redis://:pw@host:6379 failed", "redis://***@[host] failed"},
		{`{"api_key": "abc", "n": 1}`, `{"api_key": "***", "n": 1}`},
		{"GET /x?token=abc&n=1", "GET /x?token=***&n=1"},
		{"Incorrect API key provided: sk-abcdefgh", "Incorrect API key provided: ***"},
		{"open /home/ann/.hermes/.env: denied", "open [path]: denied"},
		{`open C:\Users\ann\x.txt failed`, "open [path] failed"},
		{"/Users/ann/x and /root/y", "[path] and [path]"},
		{"connect 10.1.2.3:8642 refused", "connect [host] refused"},
		{"connect [::1]:8642 refused", "connect [host] refused"},
		{"dial localhost:8080 and db.internal", "dial [host] and [host]"},
		{"to redis-1.svc:6379 now", "to [host] now"},
		{"token eyJhbGciOiJI.eyJzdWIi.sig_x-1 used", "token *** used"},
		{"id " + strings.Repeat("a1", 25), "id ***"},
		{"the secret word is MySecretKey!", "the secret word is ***!"},
		{"a\r\n\tb\x00c\u2028d", "a b c d"},
		{"bad \xff\xfe utf8", "bad \ufffd utf8"},
		{"skeleton task-force at 12:30, line 7:404", "skeleton task-force at 12:30, line 7:404"},
		{"HTTP 500: see https://api.example.com/v1/models", "HTTP 500: see https://api.example.com/v1/models"},
	}
	for _, test := range tests {
		if got := Redact(test.in, "MySecretKey", "", "a"); got != test.want {
			t.Errorf("%q\n got %q\nwant %q", test.in, got, test.want)
		}
	}
}

func TestRedactIsBounded(t *testing.T) {
	for _, unit := range []string{"x ", "é ", "👩‍💻 ", "\xff "} {
		got := Redact(strings.Repeat(unit, 100_000))
		if n := utf8.RuneCountInString(got); n > maxErrorText || !utf8.ValidString(got) {
			t.Errorf("%q: %d characters, valid %v", unit, n, utf8.ValidString(got))
		}
	}
}

func TestClientRedactsItsKey(t *testing.T) {
	c := newClient(t, Config{BaseURL: "http://gw.example.com:99", Key: StaticKey("pass phrase", "api_key")})
	if got := c.Redact("pass phrase at gw.example.com:99"); got != "*** at ***" {
		t.Errorf("got %q", got)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Bearer abcdefgh sk-abcdefgh /home/x", "secret")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := Redact(text, secret)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > maxErrorText || strings.ContainsAny(got, "\r\n\x00") {
			t.Fatalf("got %q", got)
		}
	})
}

func TestClassLabels(t *testing.T) {
	seen := map[string]bool{}
	for class := ClassUnknown; class < classCount; class++ {
		label := class.String()
		if label == "" || seen[label] {
			t.Errorf("class %d has label %q", class, label)
		}
		seen[label] = true
	}
	if Class(200).String() != "unknown" || ReleaseClass(200).String() != "unknown" {
		t.Error("values out of range need a label too")
	}
}

// A key cannot leak by being printed.
func TestKeyPrintsItsSource(t *testing.T) {
	key := Key{"secret", "api_key"}
	if got := fmt.Sprintf("%v %+v %#v %s", key, key, key, key); strings.Contains(got, "secret") {
		t.Errorf("printed %q", got)
	}
}

package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

const testKey = "test-0123456789abcdef0123456789"

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func fakeAndClient(t testing.TB, cfg Config) (*fakegateway.Server, *Client) {
	t.Helper()
	fake := fakegateway.Start(t, fakegateway.Options{Key: testKey})
	cfg.BaseURL = fake.URL
	if cfg.Key == nil {
		cfg.Key = StaticKey(testKey, "api_key")
	}
	return fake, newClient(t, cfg)
}

func ask(t testing.TB, c *Client, input string) (*transcript, Outcome, *Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	h := &transcript{}
	outcome, err := c.Responses(ctx, ResponsesRequest{Input: input}, h)
	if (err == nil) != (outcome.Kind == Completed) {
		t.Errorf("kind %v with error %v", outcome.Kind, err)
	}
	if err != nil && AsError(err) == nil {
		t.Errorf("%T is no *Error", err)
	}
	return h, outcome, AsError(err)
}

func TestResponsesEcho(t *testing.T) {
	fake, c := fakeAndClient(t, Config{Headers: http.Header{"X-Access": {"yes"}}})
	h := &transcript{}
	outcome, err := c.Responses(context.Background(), ResponsesRequest{
		Input:        []any{map[string]any{"role": "user", "content": []any{map[string]string{"type": "input_text", "text": "hello"}}}},
		Instructions: "be short",
		History:      []Message{{"user", "a"}, {"assistant", "b"}},
		SessionKey:   "chat-1",
	}, h)
	if err != nil || h.text.String() != "echo: hello" || outcome.Text != "echo: hello" || !outcome.Streamed {
		t.Fatalf("text %q, outcome %+v, err %v", h.text.String(), outcome, err)
	}
	if outcome.Usage.TotalTokens != 19 || outcome.Model != "hermes-agent" || !strings.HasPrefix(outcome.ResponseID, "resp_") {
		t.Errorf("outcome %+v", outcome)
	}
	turn := fake.Turns()[0]
	// GW-1, GW-39, GW-41, R6
	const body = `{"input":[{"content":[{"text":"hello","type":"input_text"}],"role":"user"}],"instructions":"be short",` +
		`"conversation_history":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"stream":true,"store":false}`
	if turn.Body != body {
		t.Errorf("body %s", turn.Body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + testKey, "Origin": "", "Cookie": "", "X-Access": "yes",
		"X-Hermes-Session-Key": "chat-1", "Content-Type": "application/json", "Accept": "text/event-stream",
		"Accept-Encoding": "", "Idempotency-Key": "",
	} {
		if got := turn.Header.Get(name); got != want {
			t.Errorf("header %s = %q, want %q", name, got, want)
		}
	}
}

// Each scripted behaviour ends a turn in one class, with the text before it kept.
func TestResponsesOutcomes(t *testing.T) {
	tests := []struct {
		input  string
		class  Class
		status int
		reason string // part of the text
		text   string // streamed
	}{
		{"[[tool]]", ClassUnknown, 0, "", "One.\n\nTwo."},
		{"[[crlf]]", ClassUnknown, 0, "", "你好🌍é"},
		{"[[final]]", ClassUnknown, 0, "", ""},
		{"[[twice]]", ClassUnknown, 0, "", "first"},
		{"[[fail 400]]", ClassBadRequest, 400, "Upstream 400: scripted failure", ""},
		{"[[fail 401]]", ClassUnauthorized, 401, "Upstream 401: the key between edge and Hermes gateway is wrong", ""},
		{"[[fail 403]]", ClassForbidden, 403, "Upstream 403: ", ""},
		{"[[fail 404]]", ClassNotFound, 404, "Upstream 404: ", ""},
		{"[[fail 413]]", ClassTooLarge, 413, "Upstream 413: ", ""},
		{"[[fail 429]]", ClassRateLimited, 429, "Upstream 429: ", ""},
		{"[[fail 500]]", ClassServerError, 500, "Upstream 500: scripted failure", ""},
		{"[[fail 503]]", ClassDraining, 503, "Upstream 503: ", ""},
		{"[[failed]]", ClassProviderFailed, 0, "Error code: 503 - upstream overloaded", "Half"},
		{"[[error]]", ClassProviderFailed, 0, "overloaded", "Half"},
		{"[[masked]]", ClassMasked, 0, "Model provider: HTTP 401: Incorrect API key provided: ***", "HTTP 401: Incorrect API key provided: sk-abcdefghijklmnop"},
		{"[[empty]]", ClassEmptyAnswer, 0, "empty answer", ""},
		{"[[html]]", ClassNotAGateway, 200, "did not return an event stream but a web page (text/html)", ""},
		{"[[redirect]]", ClassNotAGateway, 302, "redirects", ""},
		{"[[cut]]", ClassLost, 0, "Response stream ended without a terminal event: the connection broke", "One two"},
		{"[[eof]]", ClassLost, 0, "Response stream ended without a terminal event", "One two"},
		{"[[reset]]", ClassLost, 0, "may have been started", ""},
	}
	fake, c := fakeAndClient(t, Config{})
	for _, test := range tests {
		t.Run(test.input, func(t *testing.T) {
			before := len(fake.Turns())
			h, _, err := ask(t, c, test.input)
			if h.text.String() != test.text {
				t.Errorf("text %q", h.text.String())
			}
			if got := len(fake.Turns()) - before; got != 1 {
				t.Errorf("%d requests; GW-44, RUN-12 want one", got)
			}
			if test.class == ClassUnknown {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Class != test.class || err.Status != test.status || !strings.Contains(err.Text, test.reason) {
				t.Fatalf("got %+v", err)
			}
			if strings.Contains(err.Text, testKey) || strings.ContainsAny(err.Text, "\n<>") {
				t.Errorf("text %q", err.Text)
			}
			if want := test.class == ClassRateLimited || test.class == ClassDraining; err.Retryable() != want {
				t.Errorf("Retryable = %v", err.Retryable())
			}
			if (test.class == ClassRateLimited || test.class == ClassDraining) && err.RetryAfter != time.Second {
				t.Errorf("RetryAfter = %v", err.RetryAfter)
			}
		})
	}
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// GW-5: every error family gives one short, clean cause.
func TestErrorFamilies(t *testing.T) {
	const secret = "sk-verysecretverysecret"
	tests := []struct {
		name, contentType, body string
		status                  int
		class                   Class
		want                    string
	}{
		{"E4", "application/json", `{"error":{"message":"no ` + secret + `","type":"x","param":null,"code":null}}`, 400, ClassBadRequest, "Upstream 400: no ***"},
		{"E3 old", "application/json", `{"error":{"message":"Invalid API key","type":"invalid_request_error","code":"invalid_api_key"}}`, 401, ClassUnauthorized, "Upstream 401: the Hermes gateway demands a key"},
		{"E3 new", "application/json", `{"error":{"message":"x","type":"gateway_auth_error","code":"gateway_auth_failed"}}`, 401, ClassUnauthorized, "Upstream 401: the Hermes gateway demands a key"},
		{"E2", "application/json", `{"error":{"message":"Invalid JSON","type":"x"}}`, 400, ClassBadRequest, "Upstream 400: Invalid JSON"},
		{"ES profile", "application/json", `{"error":"Unknown profile: work"}`, 404, ClassUnknownProfile, "Upstream 404: the Hermes gateway does not serve this profile"},
		{"ET 404", "text/plain", "404: Not Found", 404, ClassNotFound, "Upstream 404: the Hermes gateway does not know this path; check the gateway address"},
		{"ET 500", "text/plain", "500 Internal Server Error\n\nServer got itself in trouble", 500, ClassServerError, "Upstream 500: the Hermes gateway failed inside"},
		{"E0", "", "", 403, ClassForbidden, "Upstream 403: the Hermes gateway or a proxy before it refused access"},
		{"HTML", "text/html", "<html><h1>Bad Gateway</h1></html>", 502, ClassServerError, "Upstream 502: the Hermes gateway failed inside"},
		{"truncated JSON", "application/json", `{"error":{"message":"ab`, 500, ClassServerError, "Upstream 500: the Hermes gateway failed inside"},
		{"noise", "application/octet-stream", strings.Repeat("\xff\x00<", 350_000), 500, ClassServerError, "Upstream 500: the Hermes gateway failed inside"},
		{"AUT-08 long", "application/json", `{"error":{"message":"key ` + secret + strings.Repeat(" é", 15_000) + `"}}`, 500, ClassServerError, "Upstream 500: key *** é"},
		{"JSON instead of a stream", "application/json", `{"error":{"message":"not here, ` + secret + `"}}`, 200, ClassNotAGateway, "Upstream 200: the gateway address did not return an event stream but application/json (not here, ***); check the address"},
		{"no type", "", "x", 200, ClassNotAGateway, "Upstream 200: the gateway address did not return an event stream but an unnamed type"},
		{"empty", "text/plain", "", 200, ClassNotAGateway, "Upstream response stream missing"},
		{"other success", "application/json", "{}", 202, ClassNotAGateway, "Upstream 202: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newClient(t, Config{BaseURL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if test.contentType != "" {
					w.Header().Set("Content-Type", test.contentType)
				}
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body)
			})})
			_, _, err := ask(t, c, "x")
			if err == nil || err.Class != test.class || err.Status != test.status || !strings.HasPrefix(err.Text, test.want) {
				t.Fatalf("got %+v", err)
			}
			if len([]rune(err.Text)) > maxErrorText+20 || strings.Contains(err.Text, secret) {
				t.Errorf("text %q", err.Text)
			}
		})
	}
}

// SSE-09: parameters and capitals in the content type are a stream all the same.
func TestContentTypeParameters(t *testing.T) {
	c := newClient(t, Config{BaseURL: serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "Text/Event-Stream;charset=UTF-8")
		fmt.Fprint(w, frames(delta("Hi"), completed))
	})})
	if h, _, err := ask(t, c, "x"); err != nil || h.text.String() != "Hi" {
		t.Errorf("text %q, err %v", h.text.String(), err)
	}
}

// R12, AUT-05: the key goes to the configured host only.
func TestRedirectIsNotFollowed(t *testing.T) {
	var reached atomic.Bool
	other := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		c := newClient(t, Config{Key: StaticKey(testKey, "api_key"), BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other+"/login", status)
		})})
		if _, _, err := ask(t, c, "x"); err == nil || err.Class != ClassNotAGateway {
			t.Errorf("%d: %+v", status, err)
		}
		if _, err := c.Health(context.Background()); AsError(err) == nil || AsError(err).Class != ClassNotAGateway {
			t.Errorf("health, %d: %v", status, err)
		}
	}
	if reached.Load() {
		t.Error("a redirect was followed")
	}
}

// GW-4 and caddy-surface 1.1: the key is read again after a 401, and the turn
// sent again only if that changed it.
func TestKeyIsReadAgainAfter401(t *testing.T) {
	var key atomic.Value
	key.Store("old-key-0123456789")
	fake := fakegateway.Start(t, fakegateway.Options{Key: testKey})
	c := newClient(t, Config{BaseURL: fake.URL, Key: func() (Key, error) { return Key{key.Load().(string), "file"}, nil }})
	if _, _, err := ask(t, c, "x"); err == nil || err.Class != ClassUnauthorized || len(fake.Turns()) != 1 {
		t.Fatalf("unchanged key: %v after %d turns", err, len(fake.Turns()))
	}
	key.Store(testKey)
	if h, _, err := ask(t, c, "x"); err != nil || h.text.String() != "echo: x" || len(fake.Turns()) != 3 {
		t.Fatalf("changed key: %v after %d turns", err, len(fake.Turns()))
	}
	if _, _, err := ask(t, c, "x"); err != nil || len(fake.Turns()) != 4 {
		t.Errorf("the new key was not kept: %v", err)
	}
}

// T27, GW-44: a refused connection is named, and safe to try again.
func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	_, _, failure := ask(t, newClient(t, Config{BaseURL: address}), "x")
	if failure == nil || failure.Class != ClassUnreachable || failure.Sent || !failure.Retryable() {
		t.Fatalf("got %+v", failure)
	}
	if !strings.Contains(failure.Text, "connection refused") || !strings.Contains(failure.Text, "16 or more characters") || strings.Contains(failure.Text, address) {
		t.Errorf("text %q", failure.Text)
	}
	_, _, failure = ask(t, newClient(t, Config{BaseURL: "https://" + strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}), "http://")}), "x")
	if failure == nil || failure.Class != ClassUnreachable {
		t.Errorf("TLS to plain HTTP: %+v", failure)
	}
}

func TestNotHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Read(make([]byte, 1024))
		conn.Write([]byte("SSH-2.0-OpenSSH\r\n\r\n"))
	}()
	_, _, failure := ask(t, newClient(t, Config{BaseURL: listener.Addr().String()}), "x")
	if failure == nil || failure.Class != ClassNotAGateway || !failure.Sent {
		t.Errorf("got %+v", failure)
	}
}

// GW-43: a body over the class's limit is refused before it is sent.
func TestBodyLimit(t *testing.T) {
	fake, c := fakeAndClient(t, Config{})
	big := strings.Repeat("x", bodyLimitA0)
	if _, _, err := ask(t, c, big); err != nil {
		t.Fatalf("1 MB to a modern gateway: %v", err)
	}
	fake.SetClass("A0")
	if _, err := c.Detect(context.Background()); err != nil {
		t.Fatal(err)
	}
	before := fake.State().Requests
	if _, _, err := ask(t, c, big); err == nil || err.Class != ClassTooLarge || err.Sent {
		t.Errorf("got %+v", err)
	}
	if fake.State().Requests != before {
		t.Error("the body was sent")
	}
}

// GW-10: a line over the ceiling ends the turn cleanly.
func TestLineOverCeiling(t *testing.T) {
	c := newClient(t, Config{MaxLine: 64 << 10, BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, frames(delta("Hi")), "data: ", strings.Repeat("x", 1<<20))
	})})
	h, _, err := ask(t, c, "x")
	if err == nil || err.Class != ClassLineTooLong || !strings.Contains(err.Text, "65536 bytes") || h.text.String() != "Hi" {
		t.Errorf("got %+v, text %q", err, h.text.String())
	}
}

// Ending the context closes the upstream stream.
func TestCancel(t *testing.T) {
	fake, c := fakeAndClient(t, Config{})
	for _, input := range []string{"[[hold]]", "[[silent]]", "[[mute]]"} {
		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 1)
		go func() {
			_, err := c.Responses(ctx, ResponsesRequest{Input: input}, &transcript{})
			result <- err
		}()
		wait, stop := context.WithTimeout(context.Background(), 20*time.Second)
		if err := fake.WaitFor(wait, func(s fakegateway.State) bool { return s.Held == 1 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := AsError(<-result); err == nil || err.Class != ClassCanceled {
			t.Errorf("%s: %v", input, err)
		}
		if err := fake.WaitFor(wait, func(s fakegateway.State) bool { return s.Active == 0 }); err != nil {
			t.Error(err)
		}
		stop()
	}
	for _, turn := range fake.Turns() {
		if !turn.ClientGone {
			t.Errorf("the gateway did not see that turn %d was closed", turn.ID)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, header := range []string{"origin", "Cookie", "authorization", "Transfer-Encoding"} {
		if _, err := New(Config{Headers: http.Header{header: {"x"}}}); err == nil {
			t.Errorf("header %s accepted", header)
		}
	}
	if _, err := New(Config{BaseURL: "http://user:pw@host"}); err == nil || strings.Contains(err.Error(), "pw") {
		t.Errorf("credentials: %v", err)
	}
}

// GW-49
func TestParseBaseURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "http://127.0.0.1:8642",
		"localhost:8642":           "http://localhost:8642",
		" http://h:1/p/work/ ":     "http://h:1/p/work",
		"https://h/a%2Fb//":        "https://h/a%2Fb",
		"h":                        "http://h",
		"[::1]:8642":               "http://[::1]:8642",
		"ftp://h":                  "",
		"http://":                  "",
		"http://u@h":               "",
		"http://h?x=1":             "",
		"http://h?":                "",
		"http://h#f":               "",
		"http://h:port":            "",
		"unix:///run/gateway.sock": "",
	} {
		got, err := ParseBaseURL(in)
		if want == "" {
			if err == nil {
				t.Errorf("%q accepted as %s", in, got)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
	}
}

func TestProfilePrefix(t *testing.T) {
	fake := fakegateway.Start(t, fakegateway.Options{})
	var path atomic.Value
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.EscapedPath())
		fake.ServeHTTP(w, r)
	})
	c := newClient(t, Config{BaseURL: base + "/p/work/"})
	if h, _, err := ask(t, c, "x"); err != nil || h.text.String() != "echo: x" || path.Load() != "/p/work/v1/responses" {
		t.Errorf("text %q, err %v, path %v", h.text.String(), err, path.Load())
	}
	if err := c.DeleteResponse(context.Background(), "a b?c"); err != nil || path.Load() != "/p/work/v1/responses/a%20b%3Fc" {
		t.Errorf("err %v, path %v", err, path.Load())
	}
}

package edge

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
)

// CR-1, CR-3: WebSocket without prior polling; what the open packet announces.
func TestOpenPacketCR3(t *testing.T) {
	e := start(t, nil)
	c := dial(t, e.server.URL, "")
	var open struct {
		PingInterval, PingTimeout, MaxPayload int64
		Upgrades                              []string
	}
	if err := json.Unmarshal([]byte(c.open), &open); err != nil {
		t.Fatal(err)
	}
	if open.PingInterval != 25000 || open.PingTimeout != 90000 || open.MaxPayload < 1_000_000 {
		t.Errorf("open packet %s", c.open)
	}
}

// CR-2: the same namespace over long-polling.
func TestPollingCR2(t *testing.T) {
	e := start(t, nil)
	base := e.server.URL + "/socket.io/?EIO=4&transport=polling"
	open := get(t, base)
	var opened struct{ SID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(open, "0")), &opened); err != nil {
		t.Fatalf("open packet %q: %v", open, err)
	}
	post(t, base+"&sid="+opened.SID, `40/chat-run,{"token":"`+aliceToken+`"}`)
	if reply := get(t, base+"&sid="+opened.SID); !strings.HasPrefix(reply, `40/chat-run,{"sid":"`) || !strings.Contains(reply, `"pid":"`) {
		t.Errorf("reply %q", reply)
	}
}

// CR-4, D-42: unknown namespaces are refused and do not disturb /chat-run.
func TestUnknownNamespaceCR4(t *testing.T) {
	e := start(t, nil)
	c := dial(t, e.server.URL, "")
	for _, ns := range []string{"/group-chat", "/chat-runX"} {
		c.write("40" + ns + ",")
		if got, want := c.controlPacket(), "4"+ns+`,{"message":"Invalid namespace"}`; got != want {
			t.Errorf("%s: answer %q, want %q", ns, got, want)
		}
	}
	if refused := c.connect(map[string]any{"token": aliceToken}); refused != "" {
		t.Errorf("refused: %s", refused)
	}
}

// CR-5..CR-8, AUT-02: who is admitted, and with which words the others are not.
func TestAdmission(t *testing.T) {
	e := start(t, nil)
	tests := []struct {
		name  string
		query string
		auth  map[string]any
		want  string
	}{
		{"CR-5 no profile", "", map[string]any{"token": aliceToken}, ""},
		{"CR-5 own profile", query("work"), map[string]any{"token": aliceToken}, ""},
		{"CR-5 blank profile", query("  "), map[string]any{"token": bobToken}, ""},
		{"CR-6 wrong token", "", map[string]any{"token": "guess"}, chatrun.TextAuthenticationFailed},
		{"CR-6 empty token", "", map[string]any{"token": ""}, chatrun.TextAuthenticationFailed},
		{"CR-6 token of another type", "", map[string]any{"token": 7}, chatrun.TextAuthenticationFailed},
		{"CR-6 no token", "", map[string]any{}, chatrun.TextAuthenticationFailed},
		{"CR-7 foreign profile", query("work"), map[string]any{"token": bobToken}, chatrun.TextProfileDenied},
		{"CR-7 admin, any profile", query("unknown"), map[string]any{"token": rootToken}, ""},
		{"AUT-02 path", query("../../etc"), map[string]any{"token": rootToken}, chatrun.TextProfileDenied},
		{"AUT-02 slash", query("a/b"), map[string]any{"token": rootToken}, chatrun.TextProfileDenied},
		{"AUT-02 escaped", query("%2e%2e"), map[string]any{"token": rootToken}, chatrun.TextProfileDenied},
		{"AUT-02 NUL", query("a\x00b"), map[string]any{"token": rootToken}, chatrun.TextProfileDenied},
		{"AUT-02 long", query(strings.Repeat("a", 300)), map[string]any{"token": rootToken}, chatrun.TextProfileDenied},
		{"AUT-07 capitals", query("Work"), map[string]any{"token": aliceToken}, chatrun.TextProfileDenied},
		{"CR-9 unknown pid and offset", "", map[string]any{"token": aliceToken, "pid": "x", "offset": "y"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := dial(t, e.server.URL, tt.query).connect(tt.auth); got != tt.want {
				t.Errorf("answer %q, want %q", got, tt.want)
			}
		})
	}
}

// CR-8: whoever comes is admitted where auth is off.
func TestAuthOffCR8(t *testing.T) {
	e := start(t, func(s *Settings) { s.Mounts = []*Mount{{Auth: auth.Off{}, Shared: true}} })
	if got := dial(t, e.server.URL, "").connect(map[string]any{"token": ""}); got != "" {
		t.Errorf("refused: %s", got)
	}
}

// The web server's own authentication counts at the handshake; the token is
// ignored then, and the session id belongs to that user.
func TestIdentityFromWebServer(t *testing.T) {
	rule, err := auth.NewIdentity("", auth.Grant{})
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, func(s *Settings) { s.Mounts = []*Mount{{Auth: rule}} })
	base := e.server.URL + "/socket.io/?EIO=4&transport=polling"
	open := getAs(t, base, "carol", http.StatusOK)
	var opened struct{ SID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(open, "0")), &opened); err != nil {
		t.Fatal(err)
	}
	getAs(t, base+"&sid="+opened.SID, "mallory", http.StatusForbidden)
	getAs(t, base+"&sid="+opened.SID, "", http.StatusForbidden)

	c := dial(t, e.server.URL, "")
	if got := c.connect(map[string]any{"token": "whatever"}); got != chatrun.TextAuthenticationFailed {
		t.Errorf("without identity: %q", got)
	}
}

// A bearer token of the handshake request is used where CONNECT brings none.
func TestBearerTokenOfHandshake(t *testing.T) {
	e := start(t, nil)
	base := e.server.URL + "/socket.io/?EIO=4&transport=polling"
	req := request(t, http.MethodGet, base, nil)
	req.Header.Set("Authorization", "Bearer "+aliceToken)
	var opened struct{ SID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(do(t, req, http.StatusOK), "0")), &opened); err != nil {
		t.Fatal(err)
	}
	post(t, base+"&sid="+opened.SID, `40/chat-run,`)
	if reply := get(t, base+"&sid="+opened.SID); !strings.HasPrefix(reply, `40/chat-run,{"sid":"`) {
		t.Errorf("reply %q", reply)
	}
}

func TestConnectionsPerUser(t *testing.T) {
	e := start(t, func(s *Settings) { s.Limits.ConnectionsPerUser = 2 })
	first := e.client(aliceToken)
	e.client(aliceToken)
	refused := dial(t, e.server.URL, "").connect(map[string]any{"token": aliceToken})
	if !strings.Contains(refused, "at most 2") {
		t.Errorf("third connection: %q", refused)
	}
	e.client(bobToken) // another user is not concerned
	first.drop()
	eventually(t, "room for another connection", func() bool { return e.core.sockets.count() == 2 })
	e.client(aliceToken)
}

// R10: until settings are attached, and from the exit on, handshakes are told to
// come again.
func TestNotReady(t *testing.T) {
	e := start(t, nil)
	open := e.client(aliceToken)
	fresh := &env{t: t}
	fresh.serve(NewCore("embedded:none", Deps{}))
	fresh.mount.Store(&Mount{})
	e.core.BeginExit()
	for name, url := range map[string]string{"starting": fresh.server.URL, "draining": e.server.URL} {
		resp, err := http.Get(url + "/socket.io/?EIO=4&transport=polling")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d, Retry-After %q", name, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
	}
	if got := fresh.core.Status(); got != "starting" {
		t.Errorf("status %q", got)
	}
	open.quiet() // connections live on until Drain
}

// CR-28, D-01, SIO-08: whatever a client sends concerns nobody else.
func TestMalformedEvents(t *testing.T) {
	e := start(t, nil)
	c, other := e.client(aliceToken), e.client(bobToken)
	events := []string{"abort", "cancel_queued_run", "resume", "approval.respond", "clarify.respond", "foo", "resumed"}
	args := [][]string{nil, {"null"}, {"[]"}, {"7"}, {`"text"`}, {"{}"}, {`{"session_id":{}}`}, {`{"session_id":7}`}, {`{"session_id":"../x"}`}}
	for _, event := range events {
		for _, a := range args {
			c.emit(event, a...)
		}
	}
	c.quiet()
	for _, a := range [][]string{nil, {"null"}, {"[]"}, {"7"}, {`"text"`}} {
		c.emit("run", a...)
		r, err := c.take()
		if err != nil || r.name != "run.failed" || r.text("error") == "" || r.text("event") != "run.failed" {
			t.Errorf("run %v: %v %v", a, r, err)
		}
	}
	other.quiet()
}

// An acknowledgement that somebody asks for comes, although nobody should.
func TestAckIsAnswered(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.write(`42/chat-run,17["foo",{}]`)
	if got := c.controlPacket(); got != "3/chat-run,17[]" {
		t.Errorf("ack %q", got)
	}
}

// CR-10: a run does not end with its socket.
func TestRunOutlivesSocketCR10(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q1", "[[hold]]")
	c.next("message.delta")
	e.holding(1)
	c.drop()
	watcher := e.client(aliceToken)
	if r := watcher.resume("s1"); r.payload["isWorking"] != true {
		t.Errorf("resumed %v", r.payload)
	}
	e.gw.Release()
	watcher.next("run.completed")
}

// A message counts once it was sent, also if the page is closed the moment after.
func TestSendAndLeave(t *testing.T) {
	e := start(t, nil)
	const senders = 20
	for i := range senders {
		c := e.client(aliceToken)
		c.run(fmt.Sprintf("s%d", i), fmt.Sprintf("q%d", i), "hello")
		if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		c.awaitClose()
	}
	eventually(t, "all messages reach the gateway", func() bool { return len(e.gw.Turns()) == senders })
}

// AUT-06: a credential that ends closes the connection, and the run goes on.
func TestExpiry(t *testing.T) {
	rule := &fading{Authenticator: tokens(t, aliceRule("default"))}
	rule.until.Store(time.Now().Add(time.Hour).UnixNano())
	e := start(t, func(s *Settings) { s.Mounts = []*Mount{{Auth: rule}} })
	long := e.client(aliceToken)
	long.run("s1", "q1", "[[hold]]")
	long.next("message.delta")
	e.holding(1)

	rule.until.Store(time.Now().Add(300 * time.Millisecond).UnixNano())
	short := e.client(aliceToken)
	short.awaitClose()
	if refused := dial(t, e.server.URL, "").connect(map[string]any{"token": aliceToken}); refused != chatrun.TextAuthenticationFailed {
		t.Errorf("expired credential: %q", refused)
	}
	long.quiet()
	e.gw.Release()
	long.next("run.completed")
}

// AUT-06: an event that arrives after the end of the credential, before the timer
// has closed the connection, is refused.
func TestEventAfterExpiry(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	var s *socket
	for _, s = range e.core.sockets.all() {
		p := *s.Principal()
		p.Expires = time.Now().Add(-time.Second)
		s.principal.Store(&p)
	}
	c.run("s1", "q1", "hello")
	if r := c.next("run.failed"); r.text("error") != textExpired {
		t.Errorf("run.failed %v", r.payload)
	}
	c.awaitClose()
	if n := len(e.gw.Turns()); n != 0 {
		t.Errorf("%d turns reached the gateway", n)
	}
}

func request(t testing.TB, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func do(t testing.TB, req *http.Request, status int) string {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %d %s, want %d", req.Method, req.URL, resp.StatusCode, body, status)
	}
	return string(body)
}

func get(t testing.TB, url string) string {
	t.Helper()
	return do(t, request(t, http.MethodGet, url, nil), http.StatusOK)
}

func getAs(t testing.TB, url, user string, status int) string {
	t.Helper()
	req := request(t, http.MethodGet, url, nil)
	if user != "" {
		req.Header.Set("X-User", user)
	}
	return do(t, req, status)
}

func post(t testing.TB, url, body string) {
	t.Helper()
	do(t, request(t, http.MethodPost, url, strings.NewReader(body)), http.StatusOK)
}

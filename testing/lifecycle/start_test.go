package lifecycle

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

const (
	aliceToken = "alice-token-0123456789"
	bobToken   = "bob-token-0123456789"
)

// The shipped Caddyfile works as it is; only its admin port is changed here, since
// tests run side by side.
func TestShippedCaddyfile(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile("../../Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	const admin = "admin localhost:2642"
	if !strings.Contains(string(shipped), admin) {
		t.Fatalf("no %q in the Caddyfile", admin)
	}
	gateway := fakegateway.Start(t, fakegateway.Options{Key: "key-of-the-gateway"})
	s := newServer(t, "HERMES_WEBUI_GATEWAY_BASE_URL="+gateway.URL, "API_SERVER_KEY=key-of-the-gateway")
	s.env = append(s.env, fmt.Sprintf("HERMES_EDGE_SITE=http://localhost:%d, http://127.0.0.1:%[1]d", s.port))
	s.start(strings.Replace(string(shipped), admin, "admin localhost:{ADMIN}", 1))

	if status, body := s.get("/chat-run/"); status != 200 || !strings.HasPrefix(body, "<!doctype html>") {
		t.Errorf("page: %d %.80q", status, body)
	}
	token, err := s.command("hermes", "token", "--address", fmt.Sprintf("localhost:%d", s.admin))
	if err != nil {
		t.Fatal(err)
	}
	token = strings.TrimSpace(token)
	c := chat.Dial(t, s.url(), token)
	c.Run("s1", "q1", "hello")
	if text := chat.TextOf(c.Until("run.completed", "run.failed")); !strings.Contains(text, "hello") {
		t.Errorf("answer %q", text)
	}
	if status, _ := s.get("/chat-run/me", "Authorization", "Bearer "+token); status != 200 {
		t.Errorf("me: %d", status)
	}

	rotated, err := s.command("hermes", "token", "--rotate", "--address", fmt.Sprintf("localhost:%d", s.admin))
	if err != nil {
		t.Fatal(err)
	}
	c.Closed()
	if status, _ := s.get("/chat-run/me", "Authorization", "Bearer "+strings.TrimSpace(rotated)); status != 200 {
		t.Errorf("with the new token: %d", status)
	}
	s.terminate()
	// Without a process the command reads the file.
	stored, err := s.command("hermes", "token", "--address", fmt.Sprintf("localhost:%d", s.admin))
	if err != nil || stored != rotated {
		t.Errorf("file: %q %v", stored, err)
	}
	for _, secret := range []string{token, strings.TrimSpace(rotated), "key-of-the-gateway"} {
		if strings.Contains(s.log(), secret) {
			t.Error("AUT-03: a secret is in the log")
		}
	}
}

// AUT-03: no token in the module's log or the access log.
func TestTokensStayOutOfLogs(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{Key: "key-of-the-gateway"})
	// By placeholder: with debug on, Caddy itself logs the configuration.
	s := newServer(t, "ALICE="+aliceToken, "BOB="+bobToken, "KEY=key-of-the-gateway")
	s.start(site(gateway.URL, "{env.KEY}", "log\n"+users("token alice {env.ALICE}", "token bob {env.BOB}"), "debug\n"))
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "hello")
	c.Until("run.completed", "run.failed")
	s.get("/chat-run/me", "Authorization", "Bearer "+aliceToken)
	s.terminate()
	for _, secret := range []string{aliceToken, bobToken, "key-of-the-gateway"} {
		if strings.Contains(s.log(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
	if !strings.Contains(s.log(), "/socket.io/") {
		t.Error("there is no access log")
	}
}

// Foreign paths and foreign WebSocket upgrades go to the reverse_proxy beside us.
func TestBesideReverseProxy(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprintf(w, "backend %s", r.URL.Path)
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbackend "+r.URL.Path+"\n")
	}))
	t.Cleanup(backend.Close)
	s := newServer(t)
	s.start(site("http://127.0.0.1:1", "", "hermes_edge\nreverse_proxy "+strings.TrimPrefix(backend.URL, "http://"), ""))
	for _, path := range []string{"/", "/socket.io/socket.io.js", "/api/hermes/sessions"} {
		if status, body := s.get(path); status != 200 || body != "backend "+path {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, body := s.get("/chat-run/health"); status != 200 || strings.Contains(body, "backend") {
		t.Errorf("health: %d %q", status, body)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /terminal HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", s.port)
	answer, err := io.ReadAll(bufio.NewReader(conn))
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 101") || !strings.HasSuffix(string(answer), "backend /terminal\n") {
		t.Errorf("upgrade: %q %v", answer, err)
	}
	s.terminate()
}

// R3: a second process on the same data file fails, and says why.
func TestSecondProcessOnTheSameData(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	config := strings.ReplaceAll(site("http://127.0.0.1:1", "", "hermes_edge", ""), "{DATA}", data)
	first, second := newServer(t), newServer(t)
	first.start(config)
	second.run(config)
	second.awaitExit()
	if second.err == nil || !strings.Contains(second.log(), "another process uses the same data_dir") {
		t.Errorf("the second process ended with %v", second.err)
	}
	if status, _ := first.get("/chat-run/health"); status != 200 {
		t.Errorf("the first one: %d", status)
	}
	first.terminate()
}

func TestCommands(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	file := s.write(site("http://127.0.0.1:1", "", "hermes_edge", ""))
	if out, err := s.command("adapt", "--config", file, "--adapter", "caddyfile"); err != nil || !strings.Contains(out, `"handler":"hermes_edge"`) {
		t.Errorf("adapt: %v %s", err, out)
	}
	if _, err := s.command("validate", "--config", file, "--adapter", "caddyfile"); err != nil {
		t.Errorf("validate: %v", err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "data")); !os.IsNotExist(err) {
		t.Errorf("validate made the data directory: %v", err)
	}
	out, err := s.command("list-modules")
	for _, module := range []string{"hermes\n", "http.handlers.hermes_edge\n", "admin.api.hermes\n"} {
		if err != nil || !strings.Contains(out, module) {
			t.Errorf("list-modules: no %q, %v", module, err)
		}
	}
	broken := s.write("{\n hermes {\n gatway http://a:1\n }\n}\n")
	if _, err := s.command("validate", "--config", broken, "--adapter", "caddyfile"); err == nil || !strings.Contains(err.Error(), `did you mean \"gateway\"?`) {
		t.Errorf("a misspelled word: %v", err)
	}
}

// R3: a data directory that cannot be used leaves us not ready, not the whole
// Caddy down; once it can be used, we are ready without a reload.
func TestUnusableDataDirIsRetried(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	obstacle := filepath.Join(s.dir, "data")
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(site("http://127.0.0.1:1", "", "hermes_edge\nrespond next", ""))
	s.eventually("the site answers", func() bool {
		status, body := s.get("/")
		return status == 200 && body == "next"
	})
	if status, body := s.get("/chat-run/health"); status != 503 || !strings.Contains(body, "starting") {
		t.Errorf("health: %d %q", status, body)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	s.eventually("ready", func() bool {
		status, _ := s.get("/chat-run/health")
		return status == 200
	})
	s.terminate()
}

// One core behind several sites and prefixes: chats are the same everywhere.
func TestSeveralMountsShareTheChats(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	other := freePort(t)
	s.start(site(gateway.URL, "", "handle_path /app/* {\n"+users(aliceRule)+"\n}\n"+users(aliceRule), "") +
		fmt.Sprintf("http://127.0.0.1:%d {\n bind 127.0.0.1\n %s\n}\n", other, users(aliceRule)))
	first := chat.Dial(t, s.url(), aliceToken)
	first.Run("s1", "q1", "hello")
	completed(t, first)
	for _, url := range []string{s.url() + "/app", fmt.Sprintf("http://127.0.0.1:%d", other)} {
		c := chat.Dial(t, url, aliceToken)
		if rows := chat.Rows(c.Resume("s1")); len(rows) != 2 || rows[0] != "user: hello" {
			t.Errorf("%s: %v", url, rows)
		}
	}
	s.terminate()
}

// CAD-03, CAD-04: encode in front and short server timeouts disturb neither
// WebSocket nor polling.
func TestEncodeAndServerTimeouts(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	s.start(site(gateway.URL, "", "encode zstd gzip\nlog\nmetrics /metrics\n"+users(aliceRule),
		"servers {\n timeouts {\n read_header 1s\n read_body 1s\n write 2s\n idle 1s\n read_body_idle 1s\n write_idle 1s\n }\n }\n"+
			"metrics"))
	c := chat.Dial(t, s.url(), aliceToken)
	// Four seconds with a delta each: longer than every timeout.
	c.Run("s1", "q1", "[[slow 4 1s]]")
	session, held := openPoll(t, s)
	resp, err := httpClient.Post(session, "text/plain", strings.NewReader(`40/chat-run,{"token":"`+aliceToken+`"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("post: %v %v", resp, err)
	}
	resp.Body.Close()
	if answer := <-held; !strings.Contains(answer, "0/chat-run,") {
		t.Errorf("the poll was answered with %q", answer)
	}
	completed(t, c)
	c.Run("s1", "q2", "hello")
	completed(t, c)
	s.terminate()
}

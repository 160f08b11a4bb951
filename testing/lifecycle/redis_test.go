//go:build unix

package lifecycle

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// withRedis puts the data of a configuration of site into a Redis; redis is what
// follows the word.
func withRedis(config, redis string) string {
	return strings.Replace(config, "data_dir", "redis "+redis+"\n data_dir", 1)
}

// anchors d.6: Redis is down at the start: alive, not ready, and at work as soon as
// it is there. The log holds no password.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	const password = "password-of-redis"
	redis := redisserver.Start(t, "--requirepass", password)
	redis.Kill()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	s.run(withRedis(site(gateway.URL, "", users(aliceRule), ""), "redis://:"+password+"@"+redis.Addr))
	s.eventually("the process is alive", func() bool {
		status, _ := s.get("/chat-run/health/live")
		return status == http.StatusOK
	})
	for path, want := range map[string]string{
		"/chat-run/health": `"starting"`, "/socket.io/?EIO=4&transport=polling": "not_ready", "/chat-run/sessions": "not_ready",
	} {
		if status, body := s.get(path); status != http.StatusServiceUnavailable || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := s.adminDo(http.MethodGet, "/hermes/health/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", status)
	}
	redis.Restart()
	s.eventually("the edge serves", func() bool {
		status, _ := s.get("/chat-run/health")
		return status == http.StatusOK
	})
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "hello")
	completed(t, c)
	if status, body := s.adminDo(http.MethodGet, "/metrics"); status != 200 || !strings.Contains(body, `hermes_edge_redis_call_seconds_count{script="submit"}`) {
		t.Errorf("metrics: %d", status)
	}
	s.terminate()
	if strings.Contains(s.log(), password) {
		t.Error("the password is in the log")
	}
}

// R5: other credentials, timeouts and durability are the same core; nobody notices.
func TestRedisReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t, "--aclfile", aclFile(t, "user hermes on >first-word >second-word ~* &* +@all", "user default on nopass ~* &* +@all"))
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	plain := site(gateway.URL, "", users(aliceRule), "")
	config := func(words string) string { return withRedis(plain, "redis://"+redis.Addr+" {\n"+words+"\n }") }
	s.start(config("username hermes\n password first-word"))
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "[[hold]]")
	awaitHeld(t, gateway, 1)
	s.mustReload(config("username hermes\n password first-word")) // R6
	s.mustReload(config("username hermes\n password second-word"))
	s.mustReload(config("username hermes\n password second-word\n timeout 2s\n durability replica"))
	gateway.Release()
	completed(t, c)
	c.Run("s1", "q2", "hello")
	completed(t, c)
	s.terminate()
}

// R5: another address, database, prefix or kind of store is another core. The old
// one sends idle clients away at once, and those who watch a run when it has ended;
// what is there stays there.
func TestRedisReloadMovesClients(t *testing.T) {
	t.Parallel()
	first, second := redisserver.Start(t), redisserver.Start(t)
	gateway := fakegateway.Start(t, fakegateway.Options{})
	plain := site(gateway.URL, "", users(aliceRule, bobRule), "")
	before := withRedis(plain, "redis://"+first.Addr)
	for name, after := range map[string]string{
		"address":        withRedis(plain, "redis://"+second.Addr),
		"database":       withRedis(plain, "redis://"+first.Addr+"/1"),
		"prefix":         withRedis(plain, "redis://"+first.Addr+" {\n prefix other:\n }"),
		"to a data file": plain,
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.start(before)
			sid := strings.ReplaceAll(name, " ", "-")
			watcher, idle := chat.Dial(t, s.url(), aliceToken), chat.Dial(t, s.url(), bobToken)
			watcher.Run(sid, "q1", "[[hold]]")
			awaitHeld(t, gateway, 1)
			s.mustReload(after)
			idle.Closed()
			moved := chat.Dial(t, s.url(), bobToken)
			moved.Run("new-"+sid, "q1", "hello")
			completed(t, moved)
			gateway.Release()
			completed(t, watcher)
			watcher.Closed()
			if rows := chat.Rows(chat.Dial(t, s.url(), aliceToken).Resume(sid)); len(rows) != 0 {
				t.Errorf("the new store has %v", rows)
			}
			s.mustReload(before)
			moved.Closed()
			if rows := chat.Rows(chat.Dial(t, s.url(), aliceToken).Resume(sid)); len(rows) != 2 {
				t.Errorf("the old store has %v", rows)
			}
			s.terminate()
		})
	}
}

// aclFile writes the users of a server.
func aclFile(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users.acl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// node is a process with others on one Redis.
func node(t *testing.T, config string) *server {
	t.Helper()
	s := newServer(t)
	s.start(config)
	return s
}

// R9 and the admin endpoint: a node that is drained sends its clients away and
// leaves what waits to the other one; it lives on until it is stopped, and that is
// quick.
func TestAdminDrainHandsOver(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t)
	gateway := fakegateway.Start(t, fakegateway.Options{})
	config := withRedis(site(gateway.URL, "", users(aliceRule, bobRule), ""), "redis://"+redis.Addr)
	a, b := node(t, config), node(t, config)
	watcher, idle := chat.Dial(t, a.url(), aliceToken), chat.Dial(t, a.url(), bobToken)
	elsewhere := chat.Dial(t, b.url(), aliceToken)
	watcher.Run("s1", "q1", "[[hold]]")
	awaitHeld(t, gateway, 1)
	elsewhere.Resume("s1")
	watcher.Run("s1", "q2", "waits")
	watcher.Until("run.queued")

	if status, _ := a.adminDo(http.MethodPost, "/hermes/drain"); status != http.StatusAccepted {
		t.Errorf("drain: %d", status)
	}
	idle.Closed()
	for path, want := range map[string]int{
		"/chat-run/health": 503, "/chat-run/health/live": 200, "/socket.io/?EIO=4&transport=polling": 503,
	} {
		if status, _ := a.get(path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	gateway.Release()
	completed(t, watcher)
	watcher.Closed()
	completed(t, elsewhere)
	if text := completed(t, elsewhere); !strings.Contains(text, "waits") {
		t.Errorf("the message that waited was answered with %q", text)
	}
	a.terminate()
	b.terminate()
}

// R9: an exit while Redis is away does not wait for it.
func TestExitWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	redis := redisserver.Start(t)
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := node(t, withRedis(site(gateway.URL, "", users(aliceRule), ""), "redis://"+redis.Addr))
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "[[hold]]")
	awaitHeld(t, gateway, 1)
	redis.Pause()
	s.terminate()
	c.Closed()
	if s.err != nil {
		t.Errorf("exit: %v", s.err)
	}
}

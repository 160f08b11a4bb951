//go:build unix

package edge

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// sharing puts the data of a core into a Redis.
func sharing(r *redisserver.Server) func(*Settings) {
	return func(s *Settings) {
		s.Redis = &redisstore.Options{
			Mode: redisstore.Standalone, Addrs: []string{r.Addr}, Prefix: "hermes:",
			Timeout: 5 * time.Second, DialTimeout: 5 * time.Second, BreakAfter: 5 * time.Second, // machines of tests are slow
		}
	}
}

// startNode is one more node with the gateway and the settings of another.
func (e *env) startNode(change func(*Settings)) *env {
	e.t.Helper()
	other := &env{t: e.t, gw: e.gw, settings: e.settings}
	if change != nil {
		change(&other.settings)
	}
	other.serve(NewCore(other.settings.CoreKey(), Deps{Logger: zaptest.NewLogger(e.t)}))
	other.attached = other.attach(other.settings)
	return other
}

// handshake asks for a connection and answers the status of that.
func (e *env) handshake() (status int, retryAfter string) {
	e.t.Helper()
	resp, err := http.Get(e.server.URL + "/socket.io/?EIO=4&transport=polling")
	if err != nil {
		e.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// A whole run goes through one node and its transcript is read on another.
func TestRunThroughRedis(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	a := start(t, sharing(r))
	b := a.startNode(nil)
	if a.core.node == b.core.node {
		t.Fatal("two nodes of one name")
	}
	ca, cb := a.client(aliceToken), b.client(aliceToken)
	cb.resume("s1")
	ca.run("s1", "q1", "hello")
	cb.next("run.completed")
	ca.next("run.completed")
	if resumed := cb.resume("s1"); len(resumed.payload["messages"].([]any)) != 2 {
		t.Errorf("resumed %v", resumed.payload)
	}
	store := a.core.Health(t.Context())["store"].(map[string]any)
	if store["kind"] != "redis" || store["mode"] != redisstore.Standalone || store["available"] != true || store["latency_ms"] == 0.0 {
		t.Errorf("health %v", store)
	}
	if got := a.core.Status(); got != "ok" {
		t.Errorf("status %q", got)
	}
	if got := r.Do("KEYS", "h{s:s1}"); got != "[]" {
		t.Errorf("keys without prefix: %s", got)
	}
}

// anchors d.6: Redis is down at the start. The process lives, is not ready, and
// works as soon as Redis is there.
func TestRedisDownAtStart(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	r.Kill()
	began := time.Now()
	e := start(t, func(s *Settings) {
		sharing(r)(s)
		s.Mounts, s.NeedsToken = append(s.Mounts, &Mount{}), true
	})
	if took := time.Since(began); took > attachPatience {
		t.Errorf("Attach waited %v for Redis", took)
	}
	if got := e.core.Status(); got != "starting" {
		t.Errorf("status %q", got)
	}
	if status, retry := e.handshake(); status != http.StatusServiceUnavailable || retry == "" {
		t.Errorf("handshake: %d, Retry-After %q", status, retry)
	}
	if store := e.core.Health(t.Context())["store"].(map[string]any); store["open"] != false || store["available"] != false || store["error"] == nil {
		t.Errorf("health %v", store)
	}
	if _, err := e.core.AccessToken(); !errors.Is(err, ErrTokenLater) {
		t.Errorf("access token: %v", err)
	}
	r.Restart()
	eventually(t, "the core is ready", func() bool { return e.core.Status() == "ok" })
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
	if _, err := e.core.AccessToken(); err != nil {
		t.Errorf("access token: %v", err)
	}
}

// attachPatience is what an Attach may take while nobody answers.
const attachPatience = 10 * time.Second

// Contract 9.1: while Redis is away the node is not ready and takes no
// connections, but those it has stay.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	e := start(t, sharing(r))
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
	r.Kill()
	eventually(t, "the node is not ready", func() bool { return e.core.Status() == "unavailable" })
	if status, retry := e.handshake(); status != http.StatusServiceUnavailable || retry == "" {
		t.Errorf("handshake: %d, Retry-After %q", status, retry)
	}
	if store := e.core.Health(t.Context())["store"].(map[string]any); store["open"] != true || store["available"] != false {
		t.Errorf("health %v", store)
	}
	r.Restart()
	eventually(t, "the node is ready again", func() bool { return e.core.Status() == "ok" })
	if resumed := c.resume("s1"); len(resumed.payload["messages"].([]any)) != 2 {
		t.Errorf("resumed %v", resumed.payload)
	}
}

// An eviction policy that drops sessions shows in health and once in the log.
func TestRedisProblemsShow(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t, "--maxmemory-policy", "allkeys-lru")
	e := start(t, sharing(r))
	eventually(t, "the core is degraded", func() bool { return e.core.Status() == "degraded" })
	store := e.core.Health(t.Context())["store"].(map[string]any)
	if problems := store["problems"].([]string); len(problems) != 1 {
		t.Errorf("problems %v", problems)
	}
	e.client(aliceToken) // it serves
	r.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	e.core.findProblems(t.Context(), e.core.backend.Load())
	if got := e.core.Status(); got != "ok" {
		t.Errorf("status %q", got)
	}
}

func TestCoreKey(t *testing.T) {
	redis := func(change func(*redisstore.Options)) *Settings {
		o := redisstore.Options{Mode: redisstore.Cluster, Addrs: []string{"b:2", "a:1"}, Prefix: "hermes:"}
		change(&o)
		return &Settings{DataDir: "/data", Redis: &o}
	}
	same := redis(func(o *redisstore.Options) {
		o.Username, o.Password, o.Timeout = "u", "p", time.Minute
		o.Addrs = []string{"a:1", "b:2"}
	})
	want := "redis:cluster:a:1,b:2/0::hermes:"
	for _, s := range []*Settings{redis(func(*redisstore.Options) {}), same} {
		if got := s.CoreKey(); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	}
	keys := map[string]bool{want: true, (&Settings{DataDir: "/data"}).CoreKey(): true}
	for _, change := range []func(*redisstore.Options){
		func(o *redisstore.Options) { o.Addrs = o.Addrs[:1] },
		func(o *redisstore.Options) { o.DB = 1 },
		func(o *redisstore.Options) { o.Prefix = "other:" },
		func(o *redisstore.Options) { o.Mode, o.Master = redisstore.Sentinel, "m" },
		func(o *redisstore.Options) { o.Mode, o.Master = redisstore.Sentinel, "n" },
	} {
		key := redis(change).CoreKey()
		if keys[key] {
			t.Errorf("key %q is taken", key)
		}
		keys[key] = true
	}
}

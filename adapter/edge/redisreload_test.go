//go:build unix

package edge

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// withPassword changes how Redis is reached, not where it is.
func withPassword(s Settings, password string) Settings {
	o := *s.Redis
	o.Password = password
	s.Redis = &o
	return s
}

// setPassword changes it at a server that has one.
func setPassword(t *testing.T, r *redisserver.Server, is, becomes string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: r.Addr, Password: is, MaxRetries: -1})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.ConfigSet(ctx, "requirepass", becomes).Err(); err != nil {
		t.Fatal(err)
	}
}

// R5: other credentials of Redis are the same core with a new client. Connections
// and runs do not notice; an equal configuration changes nothing (R6).
func TestRedisCredentialsR5(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t, "--requirepass", "first")
	e := start(t, func(s *Settings) {
		sharing(r)(s)
		*s = withPassword(*s, "first")
	})
	script := e.script("question", "again")
	c := e.client(aliceToken)
	c.run("s1", "q1", "question")
	script.stream(c, "question", "one")

	equal := e.attach(withPassword(e.settings, "first"))
	setPassword(t, r, "first", "second")
	second := e.attach(withPassword(e.settings, "second"))
	e.attached.Detach()
	equal.Detach()
	script.stream(c, "question", "two")
	script.finish(c, "question")

	// A wrong one makes the node not ready, though the server answers; the
	// connections stay, and the next settings mend it.
	wrong := e.attach(withPassword(e.settings, "wrong"))
	second.Detach()
	eventually(t, "the node is not ready", func() bool { return e.core.Status() == "unavailable" })
	e.attach(withPassword(e.settings, "second"))
	wrong.Detach()
	eventually(t, "the node is ready", func() bool { return e.core.Status() == "ok" })
	c.run("s1", "q2", "again")
	script.stream(c, "again", "three")
	script.finish(c, "again")
}

// R5: timeouts and durability change in place too.
func TestRedisTimeoutsR5(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	e := start(t, sharing(r))
	c := e.client(aliceToken)
	other := e.settings
	o := *e.settings.Redis
	o.Timeout, o.DialTimeout, o.Durability = 3*time.Second, 3*time.Second, redisstore.DurabilityReplica
	other.Redis = &o
	e.attach(other)
	e.attached.Detach()
	if e.core.sharedOptions.Timeout != 3*time.Second {
		t.Error("the store was not configured anew")
	}
	c.run("s1", "q1", "hello")
	c.next("run.completed")
}

// Two nodes have one access token; when one of them replaces it, the other one
// notices and closes what the old one had admitted.
func TestAccessTokenOfAllNodes(t *testing.T) {
	t.Parallel()
	r := redisserver.Start(t)
	generated := func(s *Settings) {
		sharing(r)(s)
		s.Mounts, s.NeedsToken = []*Mount{{}}, true
	}
	a := start(t, generated)
	b := a.startNode(func(s *Settings) { s.DataDir = t.TempDir() })
	token := accessToken(t, a)
	if accessToken(t, b) != token {
		t.Fatal("two nodes, two tokens")
	}
	c := b.client(token)
	next, err := a.core.RotateAccessToken()
	if err != nil {
		t.Fatal(err)
	}
	c.awaitClose()
	if accessToken(t, b) != next {
		t.Error("the other node has another token")
	}
	b.client(next)
	// A store that lost everything gets them back.
	peers := r.Do("GET", "hermes:p{p}:peer")
	r.Do("FLUSHALL")
	eventually(t, "token and secret of the nodes are stored again", func() bool {
		return r.Do("GET", "hermes:p{p}:access_token") == next && r.Do("GET", "hermes:p{p}:peer") == peers
	})
}

func accessToken(t *testing.T, e *env) string {
	t.Helper()
	token, err := e.core.AccessToken()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

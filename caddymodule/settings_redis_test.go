package caddymodule

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

func TestRedisSettings(t *testing.T) {
	isolate(t)
	t.Setenv("TEST_REDIS_URLS", "redis://s1 redis://s2:26380/3")
	t.Setenv("TEST_REDIS_PASSWORD", "p@ss word")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("watch-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		redis Redis
		want  redisstore.Options
	}{
		"one server": {
			Redis{Addresses: []string{"redis://u:p%40ss@127.0.0.1/4"}},
			redisstore.Options{Mode: redisstore.Standalone, Addrs: []string{"127.0.0.1:6379"}, DB: 4, Username: "u", Password: "p@ss"},
		},
		"sentinel, its default port": {
			Redis{Addresses: []string{"redis://s1", "redis://s2:26380"}, Master: "m", Timeout: caddy.Duration(2 * time.Second)},
			redisstore.Options{
				Mode: redisstore.Sentinel, Addrs: []string{"s1:26379", "s2:26380"}, Master: "m",
				Timeout: 2 * time.Second, DialTimeout: 2 * time.Second,
			},
		},
		"sentinel, database and secrets": {
			Redis{
				Addresses: []string{"redis://s1/3"}, Mode: "sentinel", Master: "m",
				Username: "u", Password: "{env.TEST_REDIS_PASSWORD}", SentinelPassword: "{file." + secret + "}",
			},
			redisstore.Options{
				Mode: redisstore.Sentinel, Addrs: []string{"s1:26379"}, Master: "m", DB: 3,
				Username: "u", Password: "p@ss word", SentinelPassword: "watch-word",
			},
		},
		"cluster from URLs": {
			Redis{Addresses: []string{"redis+cluster://a:7000,b:7000", "redis+cluster://c:7000"}, Durability: "replica"},
			redisstore.Options{
				Mode: redisstore.Cluster, Addrs: []string{"a:7000", "b:7000", "c:7000"}, Durability: redisstore.DurabilityReplica,
			},
		},
		"cluster by its word": {
			Redis{Addresses: []string{"redis://a:7000"}, Mode: "cluster", Prefix: "team:", Durability: "none"},
			redisstore.Options{Mode: redisstore.Cluster, Addrs: []string{"a:7000"}, Prefix: "team:"},
		},
		"socket": {
			Redis{Addresses: []string{"unix:///run/redis.sock?db=2"}},
			redisstore.Options{Mode: redisstore.Standalone, Addrs: []string{"/run/redis.sock"}, DB: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := build(t, nil, &App{Redis: &tt.redis})
			got, want := *s.Redis, tt.want
			if want.Prefix == "" {
				want.Prefix = "hermes:"
			}
			if !slices.Equal(got.Addrs, want.Addrs) || got.Mode != want.Mode || got.Master != want.Master || got.DB != want.DB ||
				got.Username != want.Username || got.Password != want.Password || got.SentinelPassword != want.SentinelPassword ||
				got.Prefix != want.Prefix || got.Timeout != want.Timeout || got.DialTimeout != want.DialTimeout ||
				got.Durability != want.Durability || (got.TLS == nil) != (want.TLS == nil) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Sessions stay in the data file for ever and in Redis for 30 days, unless the
// operator says otherwise.
func TestRetentionDefaults(t *testing.T) {
	isolate(t)
	redis := &Redis{Addresses: []string{"redis://127.0.0.1"}}
	for name, tt := range map[string]struct {
		app  App
		want time.Duration
	}{
		"file":          {App{}, 0},
		"redis":         {App{Redis: redis}, 30 * 24 * time.Hour},
		"redis forever": {App{Redis: redis, Retention: new(caddy.Duration)}, 0},
		"redis a week":  {App{Redis: redis, Retention: new(caddy.Duration(7 * 24 * time.Hour))}, 7 * 24 * time.Hour},
	} {
		if s, _ := build(t, nil, &tt.app); s.Retention != tt.want {
			t.Errorf("%s: %v, want %v", name, s.Retention, tt.want)
		}
	}
}

func TestNodeSettings(t *testing.T) {
	isolate(t)
	t.Setenv("TEST_NODE", "web-1")
	s, _ := build(t, nil, &App{
		Redis: &Redis{Addresses: []string{"redis://127.0.0.1"}},
		Node:  &Node{Name: "{env.TEST_NODE}", Advertise: "10.0.0.5:2643"},
	})
	if s.Node != (edge.Node{Name: "web-1", Advertise: "10.0.0.5:2643"}) {
		t.Errorf("%+v", s.Node)
	}
}

// Errors in what is known only in Provision say what to do and quote no secret.
func TestRedisErrors(t *testing.T) {
	isolate(t)
	const secret = "very-secret"
	t.Setenv("TEST_BAD_URL", "redis://user:"+secret+"@host:port")
	t.Setenv("TEST_TWO_URLS", "redis://user:"+secret+"@a redis://user:"+secret+"@b")
	redis := func(change func(*Redis)) *App {
		r := &Redis{Addresses: []string{"redis://user:" + secret + "@127.0.0.1"}}
		change(r)
		return &App{Redis: r}
	}
	for want, app := range map[string]*App{
		"redis: missing address": {Redis: new(Redis)},
		"redis: address: {env.TEST_NOT_SET} cannot be resolved": redis(func(r *Redis) {
			r.Addresses = []string{"redis://user:" + secret + "@{env.TEST_NOT_SET}"}
		}),
		"redis: address: a placeholder cannot be resolved":             redis(func(r *Redis) { r.Addresses = []string{"redis://user:{" + secret + "}@host"} }),
		"redis: address: each host needs a name":                       redis(func(r *Redis) { r.Addresses = []string{"{env.TEST_BAD_URL}"} }),
		"redis: several addresses need mode":                           redis(func(r *Redis) { r.Addresses = []string{"{env.TEST_TWO_URLS}"} }),
		"redis: password: {file./none/of/these} cannot be resolved":    redis(func(r *Redis) { r.Password = "{file./none/of/these}" }),
		"redis: user and password stand in the address and as words":   redis(func(r *Redis) { r.Password = secret }),
		"redis: master is only for mode sentinel":                      redis(func(r *Redis) { r.Mode, r.Master = "standalone", "m" }),
		"redis: timeout 1h0m0s is out of range":                        redis(func(r *Redis) { r.Timeout = caddy.Duration(time.Hour) }),
		"redis: tls_client_auth needs a certificate and its key":       redis(func(r *Redis) { r.TLS = &RedisTLS{ClientKey: "k"} }),
		"redis: the tls_ words need an address that begins with":       redis(func(r *Redis) { r.TLS = &RedisTLS{ServerName: "n"} }),
		"redis: tls_ca: open /none/of/these":                           redis(func(r *Redis) { r.Addresses, r.TLS = []string{"rediss://h"}, &RedisTLS{CA: []string{"/none/of/these"}} }),
		`redis: prefix must not contain braces`:                        redis(func(r *Redis) { r.Prefix = "{p}" }),
		`node: "web.1" is not a node name`:                             {Node: &Node{Name: "web.1"}},
		"node: advertise is only for nodes that share a Redis":         {Node: &Node{Advertise: "10.0.0.5:2643"}},
		`node: advertise "10.0.0.5" is not an address: want host:port`: {Node: &Node{Advertise: "10.0.0.5"}},
		"retention 1s is out of range":                                 {Retention: new(caddy.Duration(time.Second))},
	} {
		b, _ := builderWith(nil)
		_, err := b.build(app)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error quotes a secret: %v", err)
		}
	}
}

// Rulings, part of Redis: a gateway gets 10 runs at a time unless the operator says
// otherwise, and 0 is no limit.
func TestMaxRuns(t *testing.T) {
	isolate(t)
	for want, set := range map[int]*int{10: nil, 0: new(int), 3: new(3)} {
		s, _ := build(t, nil, &App{Gateways: map[string]*Gateway{"default": {Addresses: []string{"http://127.0.0.1:1"}, MaxRuns: set}}})
		if got := s.Gateways["default"].MaxRuns; got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

// Without a process the command cannot show a token that Redis holds, and says so.
func TestTokenOfRedisIsNotInAFile(t *testing.T) {
	isolate(t)
	_, err := tokenOfFile([]byte(`{"apps":{"hermes":{"redis":{"addresses":["redis://127.0.0.1"]}}}}`))
	if err == nil || !strings.Contains(err.Error(), "kept in Redis") {
		t.Errorf("error %v", err)
	}
}

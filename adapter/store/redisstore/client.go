package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// shards makes the breakers of a deployment: one for a server, one for each node
// of a cluster.
type shards struct {
	opts   *Options
	gens   *generations
	ctx    context.Context
	cancel context.CancelFunc
	probes probes

	mu      sync.Mutex
	all     map[string]*breaker
	masters map[string]bool // of a cluster, as last seen; nil: not seen yet
}

func newShards(o *Options, gens *generations) *shards {
	ctx, cancel := context.WithCancel(context.Background())
	return &shards{opts: o, gens: gens, ctx: ctx, cancel: cancel, all: make(map[string]*breaker)}
}

// place names what serves a deployment of one shard.
func (s *shards) place() string {
	if s.opts.Mode == Sentinel {
		return s.opts.Master
	}
	return s.opts.Addrs[0]
}

// watch puts a breaker before a shard's client and notices who serves it. A cluster
// makes a client again when a node has been away; it gets the breaker of that node.
func (s *shards) watch(at *server, c *redis.Client) *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &breaker{
		addr: at.addr, after: s.patience(), log: s.opts.Logger, ctx: s.ctx, probes: &s.probes, observer: s.opts.Observer,
		ping: func(ctx context.Context) error { return c.Ping(ctx).Err() },
	}
	s.all[at.addr] = b
	c.AddHook(b)
	c.AddHook(&guard{at, c})
	return c
}

// patience is how long a shard may leave everything unanswered.
func (s *shards) patience() time.Duration {
	if s.opts.BreakAfter > 0 {
		return s.opts.BreakAfter
	}
	return breakAfter
}

// refuses reports whether a shard does not answer at this moment.
func (s *shards) refuses(addr string) bool {
	s.mu.Lock()
	b := s.all[addr]
	s.mu.Unlock()
	return b != nil && b.refuses()
}

// open reports whether a shard does not answer.
func (s *shards) open() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for addr, b := range s.all {
		if s.masters != nil && !s.masters[addr] {
			continue
		}
		b.mu.Lock()
		open := b.open
		b.mu.Unlock()
		if open {
			return true
		}
	}
	return false
}

// serve notes who the masters of a cluster are. What does not answer beside them
// does not matter.
func (s *shards) serve(masters map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.masters = masters
}

func (s *shards) close() {
	s.cancel()
	s.probes.wait()
}

// connect makes the client. Nothing is ever sent twice by it but what a cluster
// redirects or a lost connection to one of its nodes makes it resend, for which
// every operation is prepared.
func (s *shards) connect() redis.UniversalClient {
	o := s.opts
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch o.Mode {
	case Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: o.Addrs, Username: o.Username, Password: o.Password, TLSConfig: o.TLS,
			MaxRedirects: 3, MaxRetries: -1,
			DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
			ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PoolTimeout: poolTimeout,
			DisableIdentity: true, MaintNotificationsConfig: off,
			NewClient: func(opt *redis.Options) *redis.Client {
				at := s.gens.server(opt.Addr)
				opt.OnConnect = at.connected
				return s.watch(at, redis.NewClient(opt))
			},
		})
	case Sentinel:
		at := s.gens.server(s.place())
		return s.watch(at, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: o.Master, SentinelAddrs: o.Addrs,
			SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, MaxRetries: -1,
			DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
			ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PoolTimeout: poolTimeout,
			DisableIdentity: true, OnConnect: at.connected,
		}))
	default:
		at := s.gens.server(s.place())
		return s.watch(at, redis.NewClient(&redis.Options{
			Addr: o.Addrs[0], Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLS, MaxRetries: -1,
			DialTimeout: o.DialTimeout, DialerRetries: 1, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
			ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PoolTimeout: poolTimeout,
			DisableIdentity: true, MaintNotificationsConfig: off, OnConnect: at.connected,
		}))
	}
}

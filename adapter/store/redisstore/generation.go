package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// lookInterval is how often the processes that serve are looked at although no
// connection was made.
const lookInterval = time.Second

// maxServers bounds the places that are remembered.
const maxServers = 1024

// generations counts how often a server process has been replaced by one that may
// lack acknowledged writes (contract 9.4): another process, or a replica that has
// become a master. Each new connection asks before it is used.
type generations struct {
	count   atomic.Uint64 // from 1
	log     *zap.Logger
	observe Observer

	mu      sync.Mutex
	servers map[string]*server
	// complete: all nodes of a cluster have been seen once. One that appears later
	// may have taken another one's place.
	complete bool
}

func newGenerations(log *zap.Logger, observe Observer) *generations {
	g := &generations{log: log, observe: observe, servers: make(map[string]*server)}
	g.count.Store(1)
	return g
}

// server is a place that a process serves: the one server, the master of a
// sentinel, or a node of a cluster.
type server struct {
	gens    *generations
	addr    string
	replica atomic.Bool // it was one when it was last looked at
	refuses atomic.Bool // it does not tell; then a connection made after one was lost counts

	known bool    // guarded by gens.mu
	is    process // guarded by gens.mu
	lost  bool    // guarded by gens.mu: a connection has ended
}

// process is what tells one server process from another.
type process struct {
	mode   string // redis_mode
	run    string // run_id
	former string // replication id before its last promotion; empty: there was none
	master bool
}

// replaced reports whether writes that were acknowledged before may lack in p.
func (p process) replaced(was process) bool {
	return p.run != was.run || p.master && !was.master || p.former != was.former && p.former != ""
}

// server returns the place at an address.
func (g *generations) server(addr string) *server {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.servers[addr]
	if s == nil {
		if len(g.servers) >= maxServers { // nodes come and go
			clear(g.servers)
		}
		s = &server{gens: g, addr: addr}
		g.servers[addr] = s
	}
	return s
}

// process returns the run_id of the process that serves an address, as far as this
// node knows; empty if it does not.
func (g *generations) process(addr string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.servers[addr]; s != nil && !s.refuses.Load() {
		return s.is.run
	}
	return ""
}

// seen notes that all masters of a cluster have been looked at.
func (g *generations) seen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.complete = true
}

// bump begins a generation.
func (g *generations) bump(addr, why string) {
	g.observe.Generation(g.count.Add(1))
	g.log.Warn("redis may have lost writes; owners check what they have",
		zap.String("address", addr), zap.String("cause", why))
}

// found takes what a server has told of itself.
func (s *server) found(p process) {
	g := s.gens
	g.mu.Lock()
	was, known := s.is, s.known
	s.is, s.known, s.lost = p, true, false
	late := !known && g.complete && p.master
	g.mu.Unlock()
	s.replica.Store(!p.master)
	s.refuses.Store(false)
	switch {
	case late:
		g.bump(s.addr, "a new master serves")
	case known && p.replaced(was):
		g.bump(s.addr, "another process serves")
	}
}

// refused notes that a server does not tell. A pool that grows is no reason for
// doubt, a connection in the place of a lost one is.
func (s *server) refused() {
	s.refuses.Store(true)
	s.gens.mu.Lock()
	lost := s.lost
	s.lost = false
	s.gens.mu.Unlock()
	if lost {
		s.gens.bump(s.addr, "reconnected, and INFO is not permitted")
	}
}

// look asks a server who it is.
func (s *server) look(ctx context.Context, c redis.Cmdable) error {
	cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Info(ctx, "server")
		p.Info(ctx, "replication")
		return nil
	})
	var reply redis.Error
	if errors.As(err, &reply) {
		s.refused()
		return nil
	}
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, cmd := range cmds {
		if info, ok := cmd.(*redis.StringCmd); ok {
			text.WriteString(info.Val() + "\n")
		}
	}
	if p := parseProcess(text.String()); p.mode != "sentinel" { // the library connects to those in the same way
		s.found(p)
	}
	return nil
}

// parseProcess reads INFO.
func parseProcess(info string) process {
	p := process{master: true}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "redis_mode":
			p.mode = value
		case "run_id":
			p.run = value
		case "role":
			p.master = value == "master"
		case "master_replid2":
			p.former = strings.Trim(value, "0")
		}
	}
	return p
}

// connected is called for each new connection before it is used. The breaker has
// let the call pass that needs it.
func (s *server) connected(ctx context.Context, c *redis.Conn) error {
	return s.look(context.WithValue(ctx, probing{}, true), c)
}

// guard is the hook of a server's client: it notices lost connections, and looks
// again before a call to what was a replica.
type guard struct {
	*server
	client *redis.Client
}

var _ redis.Hook = (*guard)(nil)

// DialHook implements redis.Hook.
func (g *guard) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		watched := &watchedConn{Conn: c, server: g.server}
		if raw, ok := c.(syscall.Conn); ok {
			return &watchedSocket{watched, raw}, nil
		}
		return watched, nil
	}
}

// ProcessHook implements redis.Hook.
func (g *guard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := g.before(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (g *guard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := g.before(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

func (g *guard) before(ctx context.Context) error {
	if !g.replica.Load() || g.refuses.Load() || ctx.Value(probing{}) != nil {
		return nil
	}
	return g.look(context.WithValue(ctx, probing{}, true), g.client)
}

// watchedConn tells its server when it ends.
type watchedConn struct {
	net.Conn
	server *server
}

// Close implements net.Conn.
func (c *watchedConn) Close() error {
	c.server.gens.mu.Lock()
	c.server.lost = true
	c.server.gens.mu.Unlock()
	return c.Conn.Close()
}

// watchedSocket is a watchedConn that the client library can see through to find
// out whether the other side has hung up.
type watchedSocket struct {
	*watchedConn
	raw syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (c *watchedSocket) SyscallConn() (syscall.RawConn, error) { return c.raw.SyscallConn() }

// watchGenerations looks at the serving processes once a second. One that does not
// answer is left to its breaker.
func (st *Store) watchGenerations(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := st.lookAround(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errOpen) {
			st.opts.Logger.Debug("look at the serving processes", zap.Error(err))
		}
	}
}

// lookAround looks at all masters. Those that do not tell are not asked again.
func (st *Store) lookAround(ctx context.Context) error {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	cluster, ok := l.client.(*redis.ClusterClient)
	if !ok {
		s := st.generations.server(l.shards.place())
		if s.refuses.Load() {
			return nil
		}
		return s.look(ctx, l.client)
	}
	var mu sync.Mutex
	seen := make(map[string]bool)
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		s := st.generations.server(c.Options().Addr)
		mu.Lock()
		seen[s.addr] = true
		mu.Unlock()
		if s.refuses.Load() {
			return nil
		}
		return s.look(ctx, c)
	})
	if len(seen) > 0 {
		l.shards.serve(seen)
	}
	if err == nil {
		st.generations.seen()
	}
	return err
}

package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Durability says what a write that must not be lost waits for.
type Durability string

// Kinds of durability.
const (
	DurabilityServer  Durability = ""        // the server's own answer
	DurabilityReplica Durability = "replica" // a replica's too, for a moment
)

const (
	replicaWait = 50 * time.Millisecond
	shortageLog = time.Minute
)

// durable are the scripts whose writes wait for a replica: those that accept a
// message, and those that end a run.
var durable = map[string]bool{"submit": true, "finish": true}

// changes are the answers of these scripts that have changed something.
var changes = map[store.Code]bool{
	store.Started: true, store.Queued: true, store.Idle: true, store.Next: true, store.Waiting: true, store.Purged: true,
}

// shortages counts writes that no replica has confirmed in time.
type shortages struct {
	mu     sync.Mutex
	missed int
	logged time.Time
}

// runDurably calls a script and waits for a replica behind it, on the same connection.
// Where the slot has moved meanwhile the call goes by itself.
func (l *link) runDurably(ctx context.Context, s *script, keys []string, args []any) (v []any, confirmed bool, err error) {
	var c redis.UniversalClient = l.client
	if cluster, ok := l.client.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, keys[0])
		if err != nil {
			return nil, false, err
		}
		c = master
	}
	send := func(whole bool) (call, wait *redis.Cmd) {
		p := c.Pipeline()
		if whole {
			call = s.Eval(ctx, p, keys, args...)
		} else {
			call = s.EvalSha(ctx, p, keys, args...)
		}
		wait = p.Do(ctx, "WAIT", 1, replicaWait.Milliseconds())
		_, _ = p.Exec(ctx) // each of both has its error
		return call, wait
	}
	call, wait := send(false)
	if redis.HasErrorPrefix(call.Err(), "NOSCRIPT") {
		call, wait = send(true)
	}
	if redis.HasErrorPrefix(call.Err(), "MOVED") || redis.HasErrorPrefix(call.Err(), "ASK") {
		v, err = s.Run(ctx, l.client, keys, args...).Slice()
		return v, false, err
	}
	v, err = call.Slice()
	n, _ := wait.Int() // an error confirms nothing
	return v, n >= 1, err
}

// replicated notes whether a replica has confirmed a write.
func (st *Store) replicated(confirmed bool) {
	st.opts.Observer.Replicated(confirmed)
	if confirmed {
		return
	}
	s := &st.shortages
	s.mu.Lock()
	s.missed++
	missed, now := s.missed, time.Now()
	if now.Sub(s.logged) < shortageLog {
		s.mu.Unlock()
		return
	}
	s.missed, s.logged = 0, now
	s.mu.Unlock()
	st.opts.Logger.Warn("no replica confirms writes in time; a failover may lose accepted messages", zap.Int("writes", missed))
}

package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Store implements store.Store on Redis. Methods are safe for concurrent use.
type Store struct {
	opts    Options
	shards  *shards
	client  redis.UniversalClient
	scripts map[string]*script
	clock   *clock
	lists   *lists
	hub     *hub

	notice      atomic.Pointer[func(store.Notice)]
	generations *generations
	looking     context.CancelFunc
	work        sync.WaitGroup

	closed atomic.Bool
	close  sync.Once
	err    error
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Shared   = (*Store)(nil)
	_ store.Recovery = (*Store)(nil)
	_ store.Slots    = (*Store)(nil)
)

// Open makes a Store. It does not wait for Redis: while there is none, operations
// end with store.ErrUnavailable.
func Open(o Options) (*Store, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	silence()
	scripts, err := load(&o)
	if err != nil {
		return nil, err
	}
	st := &Store{opts: o, scripts: scripts, clock: newClock()}
	st.generations = newGenerations(o.Logger, nil)
	st.shards = newShards(&st.opts, st.generations)
	st.client = st.shards.connect()
	st.lists = newLists(st)
	st.hub = newHub(st)
	ctx, cancel := context.WithCancel(context.Background())
	st.looking = cancel
	st.work.Go(func() { st.watchGenerations(ctx) })
	return st, nil
}

// Close ends the connections. Calls under way end with an error.
func (st *Store) Close() error {
	st.close.Do(func() {
		st.closed.Store(true)
		st.looking()
		st.work.Wait()
		st.lists.close()
		st.hub.close()
		st.shards.close()
		if err := st.client.Close(); err != nil {
			st.err = fmt.Errorf("close redis connections: %w", err)
		}
	})
	return st.err
}

// Now implements store.Store: the store's time as its last answers bound it. In a
// cluster the clocks of the nodes are taken for one.
func (st *Store) Now() int64 { return st.clock.now() }

// Ping asks one server for an answer.
func (st *Store) Ping(ctx context.Context) error {
	ctx, cancel := st.timeout(ctx)
	defer cancel()
	return mapError(ctx, st.client.Ping(ctx).Err())
}

// Available implements store.Shared: whether every shard that was asked lately has
// answered.
func (st *Store) Available() bool { return !st.shards.open() }

// leave refuses calls that need not be sent.
func (st *Store) leave(ctx context.Context) error {
	if st.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	return nil
}

// call runs a script on keys of the caller's.
func (st *Store) call(ctx context.Context, name string, keys []string, args ...any) (*reply, error) {
	if err := st.leave(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := st.timeout(ctx)
	defer cancel()
	sent := time.Now()
	v, err := st.scripts[name].Run(ctx, st.client, keys, args...).Slice()
	if err != nil {
		return nil, mapError(ctx, err)
	}
	return st.read(sent, v)
}

// pipelineBatch bounds the calls of one pipeline of reads.
const pipelineBatch = 64

// pipeline runs a script that reads on several sets of keys, and answers or an
// error for each.
func (st *Store) pipeline(ctx context.Context, name string, keys [][]string) ([]*reply, []error) {
	replies, errs := make([]*reply, len(keys)), make([]error, len(keys))
	if err := st.leave(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return replies, errs
	}
	limited, cancel := st.timeout(ctx)
	defer cancel()
	s, sent := st.scripts[name], time.Now()
	cmds := make([]*redis.Cmd, len(keys))
	_, err := st.client.Pipelined(limited, func(p redis.Pipeliner) error {
		for i, k := range keys {
			cmds[i] = s.EvalSha(limited, p, k)
		}
		return nil
	})
	for i, cmd := range cmds {
		if cmd == nil {
			errs[i] = mapError(limited, err)
			continue
		}
		v, err := cmd.Slice()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			replies[i], errs[i] = st.call(ctx, name, keys[i])
		case err != nil:
			errs[i] = mapError(limited, err)
		default:
			replies[i], errs[i] = st.read(sent, v)
		}
	}
	return replies, errs
}

func (st *Store) read(sent time.Time, v []any) (*reply, error) {
	r, ok := newReply(v)
	if !ok {
		return nil, errReply
	}
	st.clock.observe(sent, r.Now)
	return r, nil
}

// session runs a script on a session.
func (st *Store) session(ctx context.Context, name, sid string, args ...any) (*reply, error) {
	if err := checkSID(sid); err != nil {
		return nil, err
	}
	return st.call(ctx, name, st.sessionKeys(name, sid), args...)
}

func (st *Store) sessionKeys(name, sid string) []string {
	names := st.scripts[name].keys
	keys := make([]string, len(names))
	tag := "{s:" + escape(sid) + "}"
	for i, n := range names {
		keys[i] = st.opts.Prefix + n + tag
	}
	return keys
}

// channel names the channel of a session's hints.
func (st *Store) channel(sid string) string { return st.sessionKey("x", sid) }

// random returns n random characters, for incarnations and stamps.
func random(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

// stamped returns the caller's stamp, or one of our own.
func stamped(stamp string) string {
	if stamp == "" {
		return random(6)
	}
	return stamp
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Store implements store.Shared on Redis. Methods are safe for concurrent use.
type Store struct {
	opts    Options // as opened; what may change is a link's
	scripts atomic.Pointer[map[string]*script]
	clock   *clock
	lists   *lists
	hub     *hub

	linked  sync.RWMutex // held to change current
	current *link

	notice      atomic.Pointer[func(store.Notice)]
	generations *generations
	looking     context.CancelFunc
	work        sync.WaitGroup
	shortages   shortages

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
	st := &Store{opts: o, clock: newClock(), generations: newGenerations(o.Logger, o.Observer)}
	st.scripts.Store(&scripts)
	st.current = newLink(&o, st.generations)
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
		st.linked.Lock()
		st.closed.Store(true)
		last := st.current
		st.linked.Unlock()
		st.looking()
		st.lists.close()
		st.hub.close()
		st.err = last.close()
		st.work.Wait()
	})
	return st.err
}

// Configure changes limits and retention for what comes; a queue that is longer
// than the new limit is worked off.
func (st *Store) Configure(l store.Limits, retention time.Duration) {
	o := st.opts
	o.Limits, o.Retention = l, retention
	if err := o.complete(); err != nil {
		st.opts.Logger.Error("new limits of the store", zap.Error(err))
		return
	}
	scripts, err := load(&o)
	if err != nil {
		st.opts.Logger.Error("new limits of the store", zap.Error(err))
		return
	}
	st.scripts.Store(&scripts)
}

// Now implements store.Store: the store's time as its last answers bound it. In a
// cluster the clocks of the nodes are taken for one.
func (st *Store) Now() int64 { return st.clock.now() }

// Ping asks one server for an answer.
func (st *Store) Ping(ctx context.Context) error {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	return mapError(ctx, l.client.Ping(ctx).Err())
}

// Available implements store.Shared: whether every shard that was asked lately has
// answered.
func (st *Store) Available() bool {
	l := st.use()
	defer l.release()
	return !l.shards.open()
}

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

// script returns a script by its name, with the limits of the moment.
func (st *Store) script(name string) *script { return (*st.scripts.Load())[name] }

// call runs a script on keys of the caller's.
func (st *Store) call(ctx context.Context, name string, keys []string, args ...any) (*reply, error) {
	if err := st.leave(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	r, err := st.answer(ctx, began, st.script(name), keys, args)
	st.opts.Observer.Call(name, time.Since(began), class(err))
	return r, err
}

func (st *Store) answer(ctx context.Context, began time.Time, s *script, keys []string, args []any) (*reply, error) {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	var v []any
	var err error
	confirmed, waits := true, l.opts.Durability == DurabilityReplica && durable[s.name]
	switch {
	case waits:
		v, confirmed, err = l.runDurably(ctx, s, keys, args)
	case s.lane == laneNone || l.opts.unpiped:
		l.opts.Observer.Pipeline(1)
		v, err = s.Run(ctx, l.client, keys, args...).Slice()
	default:
		v, err = l.lanes.run(ctx, s, keys, args)
	}
	if err != nil {
		return nil, mapError(ctx, err)
	}
	r, err := st.read(began, v)
	if err == nil && waits && changes[r.Code] {
		st.replicated(confirmed)
	}
	return r, err
}

func (st *Store) read(sent time.Time, v []any) (*reply, error) {
	r, ok := newReply(v)
	if !ok {
		return nil, errReply
	}
	st.clock.observe(sent, r.Now)
	return r, nil
}

// pipelineBatch bounds the calls of one pipeline of reads.
const pipelineBatch = 64

// pipeline runs a script that reads on several sets of keys, and answers or an
// error for each.
func (st *Store) pipeline(ctx context.Context, name string, keys [][]string) ([]*reply, []error) {
	replies, errs := make([]*reply, len(keys)), make([]error, len(keys))
	if len(keys) == 1 {
		replies[0], errs[0] = st.call(ctx, name, keys[0])
		return replies, errs
	}
	if err := st.leave(ctx); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return replies, errs
	}
	l := st.use()
	defer l.release()
	limited, cancel := l.timeout(ctx)
	defer cancel()
	s, sent := st.script(name), time.Now()
	cmds := make([]*redis.Cmd, len(keys))
	l.opts.Observer.Pipeline(len(keys))
	_, err := l.client.Pipelined(limited, func(p redis.Pipeliner) error {
		for i, k := range keys {
			cmds[i] = s.EvalSha(limited, p, k)
		}
		return nil
	})
	st.opts.Observer.Call(name, time.Since(sent), class(mapError(limited, network(err))))
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

// network leaves out errors that a server has answered: those are of one call.
func network(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return nil
	}
	return err
}

// process names the server process that this node takes for the one that serves a
// session. What is begun at another one was decided too early (contract 9.4).
func (st *Store) process(ctx context.Context, sid string) string {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	return st.generations.process(l.serving(ctx, st.sessionKey("h", sid)))
}

// session runs a script on a session.
func (st *Store) session(ctx context.Context, name, sid string, args ...any) (*reply, error) {
	if err := checkSID(sid); err != nil {
		return nil, err
	}
	return st.call(ctx, name, st.sessionKeys(name, sid), args...)
}

func (st *Store) sessionKeys(name, sid string) []string {
	names := st.script(name).keys
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

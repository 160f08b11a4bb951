package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of what a node remembers about session lists.
const (
	listedSessions = 1 << 14
	pendingTouches = 1 << 13
	touchInterval  = 100 * time.Millisecond
)

// lists keeps the session lists: a session is put into its lists before it is
// made, and moved up soon after it was active. Lists are hints; what is in them
// is checked against the roots.
type lists struct {
	st     *Store
	cancel context.CancelFunc
	done   chan struct{}
	wake   chan struct{}

	flushing sync.Mutex // one flush at a time; held over calls, taken by flush only

	mu      sync.Mutex
	listed  map[place]struct{} // known to be in their lists
	as      uint64             // generation in which that was known
	pending map[place]int64    // to be moved up to this time
}

// place is a session in the lists of its owner and its profile.
type place struct {
	sid   string
	guard store.Guard
}

func newLists(st *Store) *lists {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lists{
		st: st, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1),
		listed: make(map[place]struct{}), pending: make(map[place]int64),
	}
	go l.run(ctx)
	return l
}

func (l *lists) close() {
	l.cancel()
	<-l.done
}

// before puts a session into its lists, unless it is known to be there.
func (l *lists) before(ctx context.Context, sid string, g store.Guard) error {
	p, generation := place{sid, g}, l.st.Generation()
	l.mu.Lock()
	if l.as != generation { // lists may have lost what was put into them
		clear(l.listed)
		l.as = generation
	}
	_, ok := l.listed[p]
	l.mu.Unlock()
	if ok {
		return nil
	}
	if err := l.st.leave(ctx); err != nil {
		return err
	}
	if err := l.write(ctx, map[place]int64{p: l.st.Now()}); err != nil {
		if errors.Is(err, store.ErrUnknown) { // of the list; the session has certainly not been touched
			return fmt.Errorf("%w: put the session into its lists: %s", store.ErrUnavailable, err)
		}
		return fmt.Errorf("put the session into its lists: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.listed) >= listedSessions {
		clear(l.listed)
	}
	if l.as == generation {
		l.listed[p] = struct{}{}
	}
	return nil
}

// after moves a session up soon.
func (l *lists) after(sid string, g store.Guard, at int64) {
	p := place{sid, g}
	l.mu.Lock()
	_, ok := l.pending[p]
	if ok || len(l.pending) < pendingTouches {
		l.pending[p] = max(at, l.pending[p])
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lists) run(ctx context.Context) {
	defer close(l.done)
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(touchInterval):
		case <-ctx.Done():
		}
		_ = l.flush(ctx) // a place in a list is worth no second try
	}
}

// flush moves up what was active lately.
func (l *lists) flush(ctx context.Context) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	batch := l.pending
	l.pending = make(map[place]int64)
	l.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	return l.write(context.WithoutCancel(ctx), batch)
}

// write puts sessions into their lists, not below the place that they have.
func (l *lists) write(ctx context.Context, batch map[place]int64) error {
	st := l.st
	link := st.use()
	defer link.release()
	ctx, cancel := link.timeout(ctx)
	defer cancel()
	add := st.script("list_add")
	send := func(load bool) ([]redis.Cmder, error) {
		return link.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for at, when := range batch {
				member := escape(at.sid)
				for _, key := range []string{st.ownerList(at.guard.Owner), st.profileList(at.guard.Profile)} {
					if load {
						add.Eval(ctx, p, []string{key}, member, when)
					} else {
						add.EvalSha(ctx, p, []string{key}, member, when)
					}
				}
				p.SAdd(ctx, st.profilesKey(), at.guard.Profile)
			}
			return nil
		})
	}
	cmds, err := send(false)
	for _, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			_, err = send(true)
			break
		}
	}
	return mapError(ctx, err)
}

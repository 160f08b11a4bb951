package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// subscription is one listener of a session's channel.
type subscription struct {
	hub     *hub
	channel string
	first   chan struct{} // closed when it is established for the first time
	once    sync.Once

	mu     sync.Mutex // held while notify runs, so that Close can wait for it
	closed bool
	notify func(store.Hint)
}

// Subscribe implements store.Log.
func (st *Store) Subscribe(ctx context.Context, sid string, notify func(store.Hint)) (store.Subscription, error) {
	if err := checkSID(sid); err != nil {
		return nil, err
	}
	if err := st.leave(ctx); err != nil {
		return nil, err
	}
	if st.away(ctx, st.channel(sid)) {
		return nil, fmt.Errorf("%w: subscribe: %w", store.ErrUnavailable, errOpen)
	}
	sub := &subscription{hub: st.hub, channel: st.channel(sid), first: make(chan struct{}), notify: notify}
	if st.hub.add(sub) {
		sub.tell(store.Hint{Established: true})
	}
	ctx, cancel := context.WithTimeout(ctx, st.opts.Timeout)
	defer cancel()
	select {
	case <-sub.first:
		return sub, nil
	case <-ctx.Done():
		sub.Close()
		return nil, fmt.Errorf("%w: subscribe: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// away reports whether the server of a key does not answer at this moment, so that
// nobody waits for it.
func (st *Store) away(ctx context.Context, key string) bool {
	l := st.use()
	defer l.release()
	return l.shards.refuses(l.serving(ctx, key))
}

// tell hands a hint over, one at a time.
func (s *subscription) tell(h store.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.notify(h)
	if h.Established {
		s.once.Do(func() { close(s.first) })
	}
}

// Close implements store.Subscription.
func (s *subscription) Close() {
	s.hub.remove(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// parseHint reads "incarnation offset stamp flags time".
func parseHint(payload string) (h store.Hint, at int64, ok bool) {
	part := strings.SplitN(payload, " ", 5)
	if len(part) < 4 {
		return store.Hint{}, 0, false
	}
	o, err := strconv.ParseInt(part[1], 10, 64)
	if len(part) == 5 {
		at = number(part[4])
	}
	return store.Hint{
		Incarnation: part[0], Head: store.Position{Offset: o, Stamp: part[2]},
		Abort: strings.Contains(part[3], "A"), Deleted: strings.Contains(part[3], "D"),
	}, at, err == nil
}

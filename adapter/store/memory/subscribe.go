package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// subscription calls notify in the turn of each change.
type subscription struct {
	st     *Store
	s      *session
	notify func(store.Hint)
}

// Subscribe implements store.Log.
func (st *Store) Subscribe(ctx context.Context, sid string, notify func(store.Hint)) (store.Subscription, error) {
	s, _, err := st.take(ctx, sid)
	if err != nil {
		return nil, err
	}
	sub := &subscription{st, s, notify}
	s.mu.Lock()
	if s.subs == nil {
		s.subs = make(map[*subscription]struct{})
	}
	s.subs[sub] = struct{}{}
	hint := store.Hint{Established: true, Head: s.Head}
	if s.exists() {
		hint.Incarnation = s.Incarnation
	}
	s.mu.Unlock()
	notify(hint)
	st.release(s)
	return sub, nil
}

// Close implements store.Subscription. It must not be called by notify.
func (sub *subscription) Close() {
	s := sub.s
	s.mu.Lock()
	delete(s.subs, sub)
	s.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		sub.st.release(s)
	default: // whoever has the turn, or the next Evict, tidies up
	}
}

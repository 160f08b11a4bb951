package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// link is a client and what belongs to it. New credentials or timeouts make a new
// one; the old one ends once nobody uses it.
type link struct {
	opts   *Options
	shards *shards
	client redis.UniversalClient
	lanes  *lanes

	users sync.WaitGroup // no use begins once another link is the current one
}

func newLink(o *Options, gens *generations) *link {
	l := &link{opts: o, shards: newShards(o, gens)}
	l.client = l.shards.connect()
	l.lanes = newLanes(l)
	return l
}

// timeout bounds one call.
func (l *link) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.opts.Timeout)
}

// serving returns the address of the server that has a key, in a cluster as its
// slots were last seen; empty if that is not known.
func (l *link) serving(ctx context.Context, key string) string {
	c, ok := l.client.(*redis.ClusterClient)
	if !ok {
		return l.shards.place()
	}
	master, err := c.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

func (l *link) close() error {
	l.shards.close()
	if err := l.client.Close(); err != nil {
		return fmt.Errorf("close redis connections: %w", err)
	}
	l.lanes.wait()
	return nil
}

// use returns the current link. The caller ends its use with release.
func (st *Store) use() *link {
	st.linked.RLock()
	defer st.linked.RUnlock()
	st.current.users.Add(1)
	return st.current
}

func (l *link) release() { l.users.Done() }

// Reconfigure makes new credentials, TLS settings, timeouts, limits and retention
// those of what comes. Everything that says where the data is must stay as it is.
// Calls under way end as they would have; subscriptions begin anew with an
// Established hint.
func (st *Store) Reconfigure(o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	if err := st.opts.sameData(&o); err != nil {
		return err
	}
	o.Logger, o.Observer = st.opts.Logger, st.opts.Observer
	o.BreakAfter, o.probeInterval, o.unpiped = st.opts.BreakAfter, st.opts.probeInterval, st.opts.unpiped
	scripts, err := load(&o)
	if err != nil {
		return err
	}
	if st.closed.Load() {
		return errClosed
	}
	next := newLink(&o, st.generations)
	st.linked.Lock()
	if st.closed.Load() {
		st.linked.Unlock()
		return next.close()
	}
	old := st.current
	st.current = next
	st.work.Go(func() { st.retire(old) })
	st.linked.Unlock()
	st.scripts.Store(&scripts)
	st.hub.renew()
	return nil
}

// retire closes a link that nobody begins to use any more. A call takes no longer
// than its timeout.
func (st *Store) retire(l *link) {
	l.users.Wait()
	if err := l.close(); err != nil {
		st.opts.Logger.Warn("an old redis client", zap.Error(err))
	}
}

// sameData reports what of o leads to other data than the options of an open store.
func (o *Options) sameData(other *Options) error {
	switch {
	case o.Mode != other.Mode || o.Master != other.Master || o.DB != other.DB || !sameAddrs(o.Addrs, other.Addrs):
		return errors.New("redis: other servers or another database need a new store")
	case o.Prefix != other.Prefix || o.Node != other.Node:
		return errors.New("redis: another key prefix or node name needs a new store")
	}
	return nil
}

// sameAddrs compares without regard to order.
func sameAddrs(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

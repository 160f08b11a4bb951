package edge

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

// keepForever is the store's word for a retention without end.
const keepForever = -1

// redisOptions are what the store is opened with.
func (c *Core) redisOptions(g *generation) redisstore.Options {
	o := *g.settings.Redis
	o.Node, o.Logger, o.Observer = c.node, c.log.Named("redis"), &c.watch
	o.Limits, o.Retention = g.storeLimits(), g.settings.Retention
	if o.Retention == 0 {
		o.Retention = keepForever
	}
	return o
}

// openShared opens the store of several nodes. It does no I/O.
func (c *Core) openShared(g *generation) error {
	o := c.redisOptions(g)
	st, err := redisstore.Open(o)
	if err != nil {
		return fmt.Errorf("%w: %w", errSettings, err)
	}
	st.OnNotice(c.noticed)
	c.store, c.shared, c.sharedOptions = st, st, o
	return nil
}

// configureShared makes the settings of a generation those of the open store. New
// credentials, TLS and timeouts get a new client; calls under way end on the old
// one (R5). Equal settings change nothing (R6).
func (c *Core) configureShared(g *generation) {
	c.peers.reconsider()
	o := c.redisOptions(g)
	if equalRedis(&o, &c.sharedOptions) {
		c.shared.Configure(o.Limits, o.Retention)
		return
	}
	if err := c.shared.Reconfigure(o); err != nil {
		c.log.Error("the new settings of redis cannot be used; those before stay in force", zap.Error(err))
		return
	}
	c.sharedOptions = o
}

// equalRedis compares how Redis is reached. Where it is, the key of the core says.
func equalRedis(a, b *redisstore.Options) bool {
	return a.Username == b.Username && a.Password == b.Password &&
		a.SentinelUsername == b.SentinelUsername && a.SentinelPassword == b.SentinelPassword &&
		a.Timeout == b.Timeout && a.DialTimeout == b.DialTimeout && a.PoolSize == b.PoolSize &&
		a.Durability == b.Durability && equalTLS(a.TLS, b.TLS)
}

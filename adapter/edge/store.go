package edge

import (
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
)

// configurable is a store whose limits follow the settings.
type configurable interface {
	Configure(l store.Limits, retention time.Duration)
}

// openStore opens the embedded store of a generation.
func (c *Core) openStore(g *generation, lockWait time.Duration) (store.Store, error) {
	st, err := embedded.Open(embedded.Options{
		Path: DataFile(g.settings.DataDir), Logger: c.log.Named("store"),
		Limits: g.storeLimits(), Retention: g.settings.Retention, LockWait: lockWait,
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// configureStore makes the limits of a generation those of the open store.
func (c *Core) configureStore(g *generation) {
	b := c.backend.Load()
	if b == nil {
		return
	}
	if st, ok := b.store.(configurable); ok {
		st.Configure(g.storeLimits(), g.settings.Retention)
	}
}

func (g *generation) storeLimits() store.Limits {
	limits := store.DefaultLimits()
	if n := g.settings.Limits.QueueLength; n > 0 {
		limits.QueueItems = n
	}
	return limits
}

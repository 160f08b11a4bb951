package edge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
)

// errSettings marks what only other settings can mend.
var errSettings = errors.New("the configuration of the store cannot be used")

// configurable is a store whose limits follow the settings.
type configurable interface {
	Configure(l store.Limits, retention time.Duration)
}

// openStore opens the store of a generation. That of a data file is ready then; one
// of several nodes has not been reached yet. The turn is held.
func (c *Core) openStore(ctx context.Context, g *generation, lockWait time.Duration) error {
	if g.settings.Redis != nil {
		return c.openShared(g)
	}
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	if err := claimFile(waiting, c); err != nil {
		return err
	}
	st, err := embedded.Open(embedded.Options{
		Path: DataFile(g.settings.DataDir), Logger: c.log.Named("store"),
		Limits: g.storeLimits(), Retention: g.settings.Retention, LockWait: lockWait,
	})
	if err != nil {
		yieldFile(c)
		return fmt.Errorf("open the data file: %w", err)
	}
	c.store = st
	return nil
}

// configureStore makes the settings of a generation those of the open store. The
// turn is held.
func (c *Core) configureStore(g *generation) {
	if c.shared != nil {
		c.configureShared(g)
		return
	}
	if st, ok := c.store.(configurable); ok {
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

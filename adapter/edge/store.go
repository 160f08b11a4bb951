package edge

import (
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
)

// openStore opens the embedded store of a generation.
func (c *Core) openStore(g *generation, lockWait time.Duration) (store.Store, error) {
	limits := store.DefaultLimits()
	if n := g.settings.Limits.QueueLength; n > 0 {
		limits.QueueItems = n
	}
	st, err := embedded.Open(embedded.Options{
		Path: DataFile(g.settings.DataDir), Logger: c.log.Named("store"),
		Limits: limits, Retention: g.settings.Retention, LockWait: lockWait,
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

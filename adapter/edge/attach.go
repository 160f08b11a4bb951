package edge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
)

// Times of opening the store.
const (
	lockWait     = 5 * time.Second // for another process, or an older core, to let the file go (R3)
	lockRetry    = 250 * time.Millisecond
	startTimeout = 30 * time.Second
	retryFirst   = 100 * time.Millisecond
	retryLast    = 5 * time.Second
	probeTimeout = 20 * time.Second
)

// Attachment is one configuration that uses a core.
type Attachment struct {
	core *Core
	gen  *generation
	once sync.Once
}

// Attach makes s the current settings. The first Attach opens the store and starts
// the engine. It fails only for the configuration itself or for a data file that
// another process has locked (R3); other troubles of the store leave the core not
// ready and are retried. ctx bounds the call, not the core.
func (c *Core) Attach(ctx context.Context, s Settings) (*Attachment, error) {
	if err := c.takeTurn(ctx); err != nil {
		return nil, err
	}
	defer c.endTurn()
	if c.exit.begun() {
		return nil, ErrDraining
	}
	g, err := newGeneration(s, &c.pool, generatedAuth{c})
	if err != nil {
		return nil, err
	}
	before := c.gen.Load()
	if before != nil {
		before.hold() // it is current again if this Attach fails
		defer before.release()
	}
	c.use(g)
	if err := c.ensureOpen(ctx, g); err != nil {
		c.use(before)
		g.release()
		return nil, err
	}
	if s.Node.Name != c.deps.Node {
		c.log.Warn("node: the new name counts from the next start on", zap.String("node", c.node))
	}
	a := &Attachment{core: c, gen: g}
	c.stack = append(c.stack, a)
	c.work.run(func() { c.probe(g) })
	return a, nil
}

// Detach takes the settings away again: the newest ones still attached become
// current. The last settings stay in force, for what still runs. Repeated calls do
// nothing.
func (a *Attachment) Detach() {
	a.once.Do(func() {
		c := a.core
		c.turn <- struct{}{}
		defer c.endTurn()
		c.stack = slices.DeleteFunc(c.stack, func(o *Attachment) bool { return o == a })
		if n := len(c.stack); n > 0 && c.gen.Load() != c.stack[n-1].gen {
			c.use(c.stack[n-1].gen)
		}
		a.gen.release()
	})
}

func (c *Core) takeTurn(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the configuration before: %w", ctx.Err())
	}
}

func (c *Core) endTurn() { <-c.turn }

// use makes g current; nil only undoes the first Attach.
func (c *Core) use(g *generation) {
	if g != nil {
		g.hold()
	}
	old := c.gen.Swap(g)
	if old != nil {
		old.release()
	}
	if g != nil {
		c.io.Reconfigure(c.serverOptions(g.settings))
		c.configureStore(g)
		c.reviewSockets()
	}
}

// ensureOpen opens what the core needs, unless it is open or being retried. It
// answers an error only where the start has to fail.
func (c *Core) ensureOpen(ctx context.Context, g *generation) error {
	if c.opening {
		return nil
	}
	err := c.open(ctx, g, lockWait)
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, embedded.ErrLocked):
		return fmt.Errorf("%w; another process uses the same data_dir: stop it or set another data_dir", err)
	case errors.Is(err, errSettings):
		return err
	}
	c.report(err)
	c.opening = c.work.run(c.reopen)
	return nil
}

// reopen tries again until the store is open.
func (c *Core) reopen() {
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-c.exit.starting.Done():
			return
		}
		if c.takeTurn(c.exit.starting) != nil {
			return
		}
		err := c.open(c.exit.starting, c.gen.Load(), lockRetry)
		if err == nil || c.exit.begun() {
			c.opening = false
			c.endTurn()
			return
		}
		c.endTurn()
		c.report(err)
	}
}

// report keeps why the core is not ready. The text may hold a path: it is for the
// log, not for health answers. What stays wrong is said once.
func (c *Core) report(err error) {
	health := "the data directory cannot be used; the log names the cause"
	advice := "store cannot be opened, trying again; check that data_dir is writable and not full"
	if c.shared != nil {
		health = "redis cannot be used yet; the log names the cause"
		advice = "redis cannot be used yet, trying again; check that it runs, and its address, user and password"
	}
	c.trouble.Store(&health)
	if text := err.Error(); text != c.reported {
		c.reported = text
		c.log.Error(advice, zap.Error(err))
	}
}

// open opens store, access token and engine as far as they are not open.
func (c *Core) open(ctx context.Context, g *generation, lockWait time.Duration) error {
	if c.store == nil {
		if err := c.openStore(ctx, g, lockWait); err != nil {
			return err
		}
	}
	if c.shared != nil {
		if err := c.shared.Ping(ctx); err != nil {
			return fmt.Errorf("ask redis: %w", err)
		}
	}
	if err := c.openToken(ctx, g); err != nil {
		return err
	}
	if err := c.openPeers(ctx); err != nil {
		return err
	}
	if c.backend.Load() == nil {
		e, err := c.startEngine()
		if err != nil {
			return err
		}
		b := &backend{store: c.store, engine: e}
		if c.shared != nil {
			b.shared = c.shared
			c.announce(ctx, b) // before the first client comes
		}
		c.backend.Store(b)
		c.watchShared(b)
	}
	c.trouble.Store(nil)
	c.reported = ""
	return nil
}

func (c *Core) startEngine() (*engine.Engine, error) {
	e := engine.New(engine.Config{
		Store: c.store, Node: c.node, Executors: c.executors, Profiles: c.profiles, Limits: c.limits,
		Logger: c.log.Named("engine"), Metrics: c.deps.Metrics, Notify: c.notifyWork, Slots: c.slots,
	})
	ctx, cancel := context.WithTimeout(c.exit.starting, startTimeout)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		e.Close()
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	return e, nil
}

// probe asks the gateways of a generation, so that health and the log name a
// missing key or a wrong address before the first run fails by it.
func (c *Core) probe(g *generation) {
	ctx, cancel := context.WithTimeout(c.exit.starting, probeTimeout)
	defer cancel()
	g.probe(ctx, func(profile string, err error) {
		c.log.Warn("gateway does not answer as it should; runs of its profile will fail",
			zap.String("profile", profile), zap.Error(err))
	})
}

package edge

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Times of a drain.
const (
	drainTick     = 50 * time.Millisecond
	idleSpread    = 5 * time.Second      // longest time over which idle connections are closed
	spreadPerConn = 2 * time.Millisecond // few connections need no spreading
	finishShare   = 5                    // a fifth of the window is kept for closing down
	finishMost    = 2 * time.Second
	closeTimeout  = time.Second // for clients that do not take what is queued for them
)

// exitState is the way of a core out of the world.
type exitState struct {
	starting  context.Context // ended: no new connections and configurations
	begin     context.CancelFunc
	hurried   context.Context // ended: runs are not waited for
	hurry     context.CancelFunc
	released  chan struct{} // closed: the data file is free
	gone      chan struct{} // closed: everything has ended
	drainOnce sync.Once
}

func (x *exitState) init() {
	x.starting, x.begin = context.WithCancel(context.Background())
	x.hurried, x.hurry = context.WithCancel(context.Background())
	x.released, x.gone = make(chan struct{}), make(chan struct{})
}

func (x *exitState) begun() bool { return x.starting.Err() != nil }

// BeginExit tells the core that the process ends: not ready any more, handshakes
// refused, held polls answered (R8). It does not block.
func (c *Core) BeginExit() {
	c.exit.begin()
	c.io.EndPolls()
	wake(c.peers.announce) // no work is sent here any more
}

// Shared reports whether other nodes can go on with what a drain leaves.
func (c *Core) Shared() bool {
	g := c.gen.Load()
	return g != nil && g.settings.Redis != nil
}

// Drain ends the core: runs may finish until shortly before ctx ends, connections
// are closed with a reason after which clients connect again, then engine and store
// are closed and the data file is free. It returns by the end of ctx; later calls
// join the first and may shorten it.
func (c *Core) Drain(ctx context.Context) {
	c.BeginExit()
	c.exit.drainOnce.Do(func() {
		patience, end := patienceOf(ctx)
		go func() {
			defer close(c.exit.gone)
			defer end()
			c.drain(patience)
		}()
	})
	select {
	case <-c.exit.gone:
	case <-ctx.Done():
		c.exit.hurry()
	}
}

// patienceOf answers how long runs may go on, so that everything has ended when
// ctx does. It does not end with ctx's cancellation but with its deadline: a
// cancelled caller hurries the drain.
func patienceOf(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(context.WithoutCancel(ctx))
	}
	kept := min(time.Until(deadline)/finishShare, finishMost)
	return context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(-kept))
}

// drain runs once. Patience bounds the wait for runs.
func (c *Core) drain(patience context.Context) {
	c.turn <- struct{}{} // an Attach under way ends by itself
	defer c.endTurn()
	patience, cancel := context.WithCancel(patience)
	defer cancel()
	defer context.AfterFunc(c.exit.hurried, cancel)()

	b := c.backend.Load()
	if b != nil {
		c.drainRuns(patience, b)
	}
	c.closeSockets()
	if b != nil {
		b.engine.Close()
	}
	c.end() // stops what works in the background
	c.work.wait()
	if b != nil {
		c.resign(b)
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			c.log.Error("store did not close cleanly", zap.Error(err))
		}
	}
	yieldFile(c)
	close(c.exit.released)
	if g := c.gen.Load(); g != nil {
		g.release()
	}
}

// drainRuns lets runs end and meanwhile closes the connections that wait for none.
func (c *Core) drainRuns(patience context.Context, b *backend) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.engine.Drain(patience)
	}()
	ticker := time.NewTicker(drainTick)
	defer ticker.Stop()
	began := time.Now()
	total := c.sockets.count()
	spread := min(idleSpread, time.Duration(total)*spreadPerConn)
	if deadline, ok := patience.Deadline(); ok {
		spread = min(spread, time.Until(deadline))
	}
	for closed, all := 0, false; !all || !isClosed(done); {
		since := time.Since(began)
		all = since >= spread || patience.Err() != nil
		share := total
		if !all {
			share = int(int64(total) * int64(since) / int64(spread))
		}
		closed += c.closeIdle(share - closed)
		if all {
			select {
			case <-done:
			case <-ticker.C:
			}
		} else {
			select {
			case <-patience.Done():
			case <-ticker.C:
			}
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// closeIdle closes at most n connections that do not wait for the ending of a run.
func (c *Core) closeIdle(n int) int {
	closed := 0
	for _, s := range c.sockets.all() {
		if closed >= n {
			break
		}
		if !s.awaitsEnding() && s.disconnect(reasonGoing) {
			closed++
		}
	}
	return closed
}

// closeSockets closes all connections, after what is queued for them, and waits
// for their goroutines.
func (c *Core) closeSockets() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.io.Shutdown(ctx); err != nil {
		c.log.Debug("connections had to be cut off", zap.Error(err))
	}
}

package edge

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times and bounds of what nodes tell each other.
const (
	announceInterval = 5 * time.Second
	announceCheck    = time.Second
	announceTTL      = 15 * time.Second
	resignTimeout    = time.Second
	maxNotices       = 256 // that wait; they are hints, and more of them are dropped
)

// endpoint is where other nodes reach this one.
type endpoint struct {
	address     string // host:port
	fingerprint string // SHA-256 of the certificate there, hexadecimal
}

// keepAnnounced tells other nodes of this one again and again. Nothing else does
// once the core serves, so that an older record never comes after a newer one.
func (c *Core) keepAnnounced(b *backend) {
	tick := time.NewTicker(announceCheck)
	defer tick.Stop()
	announced := time.Now() // when the store was opened
	for {
		select {
		case <-c.peers.announce:
		case <-tick.C:
			// While the store refuses, this is what finds out that it does not any more.
			if time.Since(announced) < announceInterval && !c.watch.refused() {
				continue
			}
		case <-c.life.Done():
			return
		}
		announced = time.Now()
		c.announce(c.life, b)
	}
}

// announce tells other nodes that this one lives, and what it can do.
func (c *Core) announce(ctx context.Context, b *backend) {
	n := store.Node{Name: c.node, Version: version(), Runs: b.engine.Stats().ActiveRuns, Caps: c.caps()}
	if at := c.endpoint.Load(); at != nil {
		n.Address, n.Fingerprint = at.address, at.fingerprint
	}
	if err := b.shared.Announce(ctx, n, announceTTL); err != nil && ctx.Err() == nil {
		c.log.Debug("node not announced", zap.Error(err))
	}
}

// caps are the classes of runs that this node takes from others.
func (c *Core) caps() []string {
	if c.exit.begun() || len(c.profiles()) == 0 {
		return nil
	}
	return []string{executorClass}
}

// resign takes the announcement back.
func (c *Core) resign(b *backend) {
	if b.shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTimeout)
	defer cancel()
	if err := b.shared.Resign(ctx, c.node); err != nil {
		c.log.Debug("node not signed off; it is forgotten by itself", zap.Error(err))
	}
}

// noticed takes a notice to this node. It does not block.
func (c *Core) noticed(n store.Notice) {
	select {
	case c.notices <- n:
	default:
	}
}

// attendNotices does what notices ask for, one after the other.
func (c *Core) attendNotices(b *backend) {
	for {
		select {
		case n := <-c.notices:
			c.attend(b, n)
		case <-c.life.Done():
			return
		}
	}
}

func (c *Core) attend(b *backend, n store.Notice) {
	switch n.Kind {
	case store.NoticeWork:
		b.engine.Attend(c.life, n.Subject)
	case store.NoticeKick:
		c.checkHolder(n.Subject)
	}
}

// notifyWork tells the node with the fewest runs that carries a class of work which
// waits for a node. The sweeps find it anyway.
func (c *Core) notifyWork(ctx context.Context, n store.Notice, class string) {
	b := c.backend.Load()
	if b == nil || b.shared == nil {
		return
	}
	live, err := b.shared.LiveNodes(ctx)
	if err != nil {
		return
	}
	live = slices.DeleteFunc(live, func(o store.Node) bool { return o.Name == c.node || !slices.Contains(o.Caps, class) })
	if len(live) == 0 {
		return
	}
	fewest := slices.MinFunc(live, func(a, b store.Node) int { return a.Runs - b.Runs })
	if err := b.shared.Notify(ctx, fewest.Name, n); err != nil {
		c.log.Debug("node not told of waiting work", zap.Error(err))
	}
}

// version is that of the module in this program.
func version() string {
	const module = "github.com/hermes-edge/hermes-edge"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
}

package caddymodule

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
)

// replacedDrain bounds the drain of a core that the configuration no longer has, or
// that the operator takes out of service: its runs may go on for a minute (R5), then
// it takes a moment to close. A core for the same data file that starts meanwhile
// hurries it.
const replacedDrain = 65 * time.Second

// cores holds the core of each data file, counted by the configurations that use
// it. On a reload the count goes 1, 2, 1 and the core notices nothing.
var cores = caddy.NewUsagePool()

// pooledCore is a core in the pool. Its destructor drains it.
type pooledCore struct {
	core *edge.Core
	key  string

	mu    sync.Mutex
	drain time.Duration // of the newest settings attached
	shown bool          // the access token was printed to the terminal
}

// acquireCore takes a reference to the core of key.
func acquireCore(key string, deps edge.Deps) (*pooledCore, error) {
	value, _, err := cores.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &pooledCore{core: edge.NewCore(key, deps), key: key, drain: edge.DefaultTimeouts().Drain}, nil
	})
	if err != nil {
		return nil, err
	}
	return value.(*pooledCore), nil
}

func (c *pooledCore) setDrain(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drain = d
}

func (c *pooledCore) drainTime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drain
}

// firstShow is true once.
func (c *pooledCore) firstShow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.shown
	c.shown = true
	return first
}

// Destruct implements [caddy.Destructor]. At the end of the process it blocks
// until the core is drained. On a reload it must not: it runs inside the request
// that reloads.
func (c *pooledCore) Destruct() error {
	d := draining.start(c)
	if caddy.Exiting() {
		d.wait()
	}
	return nil
}

// drains are the cores that nobody uses any more, or is to use, and that are not
// closed yet.
type drains struct {
	mu       sync.Mutex
	running  map[*drain]struct{}
	deadline time.Time // of the exit; zero while the process goes on
}

var draining = drains{running: make(map[*drain]struct{})}

// drain is one of them. It ends by itself, at the latest when its time is over.
type drain struct {
	core *pooledCore
	done chan struct{}

	mu    sync.Mutex
	until time.Time
}

func (d *drains) start(c *pooledCore) *drain {
	limit := d.limit(c)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	one := &drain{core: c, done: make(chan struct{}), until: time.Now().Add(limit)}
	d.mu.Lock()
	d.running[one] = struct{}{}
	d.mu.Unlock()
	go func() {
		defer close(one.done)
		defer cancel()
		c.core.Drain(ctx)
		d.mu.Lock()
		delete(d.running, one)
		d.mu.Unlock()
	}()
	return one
}

// limit is the time that a core which is given up now may take.
func (d *drains) limit(c *pooledCore) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.deadline.IsZero():
		return time.Until(d.deadline)
	case caddy.Exiting():
		return c.drainTime()
	}
	return replacedDrain
}

// shorten brings the end of a drain forward. Most of the time that is left is for
// its runs; then it is hurried.
func (d *drain) shorten(left time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	until := time.Now().Add(left)
	if !until.Before(d.until) {
		return
	}
	d.until = until
	time.AfterFunc(left*4/5, func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		d.core.core.Drain(over)
	})
}

// wait returns when the drain has ended or its time is over.
func (d *drain) wait() {
	d.mu.Lock()
	left := time.Until(d.until)
	d.mu.Unlock()
	select {
	case <-d.done:
	case <-time.After(left):
	}
}

// beginExit sets the end of all drains: the whole exit is bounded, not each step
// of it. Only the first call counts.
func (d *drains) beginExit(limit time.Duration) {
	d.mu.Lock()
	if d.deadline.IsZero() {
		d.deadline = time.Now().Add(limit)
	}
	left := time.Until(d.deadline)
	d.mu.Unlock()
	for _, one := range d.list() {
		one.shorten(left)
	}
}

// awaitAll waits for every drain; each one is bounded.
func (d *drains) awaitAll() {
	for _, one := range d.list() {
		one.wait()
	}
}

func (d *drains) list() []*drain {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.running))
}

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	connectsInFlight = 64
	idleBuffer       = 512
)

// idleLoad is B1: connections that have joined a namespace and then do nothing
// but answer heartbeats.
type idleLoad struct {
	namespace   string
	connections int
	hold        time.Duration
}

func (l idleLoad) measure(ctx context.Context, t *target) (measurement, error) {
	before, err := settled(ctx, t)
	if err != nil {
		return nil, err
	}
	liveBefore, err := liveBytes(ctx, t)
	if err != nil {
		return nil, err
	}
	crowd := &crowd{}
	defer crowd.leave()
	start := time.Now()
	if err := crowd.enter(ctx, t.addr, l.namespace, l.connections); err != nil {
		return nil, err
	}
	n := float64(l.connections)
	m := measurement{
		connectRate: n / time.Since(start).Seconds(),
		baseMemory:  float64(before.resident) / 1e6,
		startTime:   milliseconds(t.took),
	}
	if err := window(ctx, t, l.hold, &crowd.heartbeats, m); err != nil {
		return nil, err
	}
	after, err := settled(ctx, t)
	if err != nil {
		return nil, err
	}
	live, err := liveBytes(ctx, t)
	if err != nil {
		return nil, err
	}
	if lost := crowd.lost.Load(); lost > 0 {
		return nil, fmt.Errorf("%d of %d idle connections were lost, one of them by: %w", lost, l.connections, *crowd.cause.Load())
	}
	m[residentPer] = float64(after.resident-before.resident) / n / 1e3
	m[peakPer] = float64(after.peak-before.resident) / n / 1e3
	if live > 0 {
		m[livePer] = float64(live-liveBefore) / n / 1e3
	}
	return m, nil
}

// crowd holds connections open, each with a goroutine that ends when its
// connection does.
type crowd struct {
	heartbeats, lost atomic.Int64
	cause            atomic.Pointer[error] // of the last loss
	leaving          atomic.Bool
	readers          sync.WaitGroup

	mu    sync.Mutex
	wires []*wire
}

func (c *crowd) enter(ctx context.Context, addr, namespace string, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connectsInFlight)
	for range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return c.add(addr, namespace)
		})
	}
	return group.Wait()
}

func (c *crowd) add(addr, namespace string) error {
	w, err := dialWire(addr, idleBuffer)
	if err != nil {
		return err
	}
	if err := w.join(namespace); err != nil {
		w.abandon()
		return err
	}
	w.pings = func() { c.heartbeats.Add(1) }
	c.mu.Lock()
	c.wires = append(c.wires, w)
	c.mu.Unlock()
	c.readers.Go(func() { c.sit(w) })
	return nil
}

func (c *crowd) sit(w *wire) {
	for {
		// A server pings every few seconds; silence is a loss.
		err := w.SetDeadline(time.Now().Add(pingInterval + patience))
		if err == nil {
			_, err = w.next()
		}
		if err != nil {
			if !c.leaving.Load() {
				c.cause.Store(&err)
				c.lost.Add(1)
			}
			return
		}
	}
}

func (c *crowd) leave() {
	c.leaving.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.wires {
		w.abandon()
	}
	c.readers.Wait()
}

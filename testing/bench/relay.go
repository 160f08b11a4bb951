package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	relaySpread = time.Second // over which the streams start, so that their deltas do not meet
	relayTail   = 1500 * time.Millisecond
)

// dial opens client number i of a server.
type dial func(ctx context.Context, t *target, i int) (client, error)

// relayLoad is B4: streams at a fixed rate, one client each.
type relayLoad struct {
	dial          dial
	streams, rate int
	hold          time.Duration
}

func (l relayLoad) measure(ctx context.Context, t *target) (measurement, error) {
	before, err := settled(ctx, t)
	if err != nil {
		return nil, err
	}
	clients, err := dialAll(ctx, l.dial, t, l.streams)
	defer abandonAll(clients)
	if err != nil {
		return nil, err
	}
	var (
		got   = new(received)
		m     = measurement{}
		each  = int(float64(l.rate) * (relaySpread + l.hold + relayTail).Seconds())
		group errgroup.Group
	)
	for i, c := range clients {
		group.Go(func() error {
			if err := wait(ctx, time.Duration(i)*relaySpread/time.Duration(l.streams)); err != nil {
				return err
			}
			return receive(c, fmt.Sprintf("relay-%d", i), each, l.rate, got)
		})
	}
	err = l.observe(ctx, t, before, got, m)
	if ended := group.Wait(); ended != nil {
		err = ended
	}
	got.delays.into(m)
	return m, err
}

// received is what all clients together have got.
type received struct {
	deltas, events atomic.Int64
	delays         histogram
}

// observe measures while all streams run.
func (l relayLoad) observe(ctx context.Context, t *target, before memory, got *received, m measurement) error {
	if err := wait(ctx, relaySpread+relayTail/3); err != nil {
		return err
	}
	deltas, events := got.deltas.Load(), got.events.Load()
	got.delays.on.Store(true)
	err := window(ctx, t, l.hold, &got.deltas, m)
	got.delays.on.Store(false)
	m[perEvent] = float64(got.deltas.Load()-deltas) / float64(max(1, got.events.Load()-events))
	if err != nil {
		return err
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	after, err := t.memory()
	m[residentPer] = float64(after.resident-before.resident) / float64(l.streams) / 1e3
	return err
}

// receive carries out one run and checks all of its text.
func receive(c client, session string, n, rate int, got *received) error {
	d := &deltaReader{total: &got.deltas, events: &got.events, delays: &got.delays}
	bound := dialTimeout
	if rate > 0 {
		bound += time.Duration(n) * time.Second / time.Duration(rate)
	}
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		return err
	}
	if err := c.start(session, n, rate); err != nil {
		return err
	}
	if err := c.finish(d); err != nil {
		return fmt.Errorf("%s after %d deltas: %w", session, d.count, err)
	}
	if err := d.complete(n); err != nil {
		return fmt.Errorf("%s: %w", session, err)
	}
	return nil
}

func dialAll(ctx context.Context, dial dial, t *target, n int) ([]client, error) {
	clients := make([]client, 0, n)
	for i := range n {
		c, err := dial(ctx, t, i)
		if err != nil {
			return clients, err
		}
		clients = append(clients, c)
	}
	return clients, nil
}

func abandonAll(clients []client) {
	for _, c := range clients {
		c.abandon()
	}
}

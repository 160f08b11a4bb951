package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const burstProfile = 2 * time.Second

// burstLoad lets runs stream as fast as they can, all at once, several times
// over. The first time only warms up.
type burstLoad struct {
	dial         dial
	runs, deltas int
	batches      int
}

func (l burstLoad) measure(ctx context.Context, t *target) (measurement, error) {
	clients, err := dialAll(ctx, l.dial, t, l.runs)
	defer abandonAll(clients)
	if err != nil {
		return nil, err
	}
	var (
		meter *meter
		got   = new(received)
		rates []float64

		profiled = func() error { return nil }
	)
	for batch := range l.batches + 1 {
		if batch == 1 {
			got = new(received)
			if meter, err = startMeter(ctx, t); err != nil {
				return nil, err
			}
			profiled = t.startProfile(ctx, burstProfile)
		}
		start := time.Now()
		if err := l.batch(ctx, clients, batch, got); err != nil {
			return nil, err
		}
		if batch > 0 {
			rates = append(rates, float64(l.runs*l.deltas)/time.Since(start).Seconds())
		}
	}
	m := measurement{}
	err = errors.Join(meter.stop(ctx, m, got.deltas.Load()), profiled())
	m[perEvent] = float64(got.deltas.Load()) / float64(got.events.Load())
	m[perSecond] = median(rates)
	return m, err
}

func (l burstLoad) batch(ctx context.Context, clients []client, batch int, got *received) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return receive(c, fmt.Sprintf("burst-%d-%d", batch, i), l.deltas, 0, got)
		})
	}
	return group.Wait()
}

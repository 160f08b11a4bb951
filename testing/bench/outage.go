package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	outageBefore = 2 * time.Second // of undisturbed load, after all streams have started
	outageAfter  = 9 * time.Second // longer than a node waits after a restarted store
)

// mishap takes a store away for a time and returns when it is back.
type mishap func(ctx context.Context, r *redisServer, away time.Duration) (outage, error)

// paused is a store that hangs: connections stay, nothing is answered.
func paused(ctx context.Context, r *redisServer, away time.Duration) (o outage, err error) {
	o.began = time.Now()
	if err := r.pause(); err != nil {
		return o, err
	}
	err = wait(ctx, away)
	o.ended = time.Now()
	return o, errors.Join(err, r.resume())
}

// killed is a store that crashes and comes back with what its file holds. It is
// back when it answers.
func killed(ctx context.Context, r *redisServer, away time.Duration) (o outage, err error) {
	o.began = time.Now()
	r.kill()
	if err = wait(ctx, away); err == nil {
		err = r.restart(ctx)
	}
	o.ended = time.Now()
	return o, err
}

// outageLoad is B11: streams at a fixed rate and new messages all the time, while
// the store goes away and comes back.
type outageLoad struct {
	mishap        mishap
	streams, rate int
	away          time.Duration
}

func (l outageLoad) measure(ctx context.Context, t *target) (measurement, error) {
	p, err := newProber(t.addr)
	if err != nil {
		return nil, err
	}
	defer p.leave()
	var (
		watchers = make([]*watcher, l.streams)
		got      = new(received)
		found    = new(faults)
		each     = int(float64(l.rate) * (relaySpread + outageBefore + l.away + outageAfter).Seconds())
		streams  errgroup.Group
	)
	got.delays.on.Store(true)
	for i := range watchers {
		w := &watcher{addr: t.addr, session: fmt.Sprintf("outage-%d", i)}
		w.reader = &deltaReader{total: &got.deltas, events: &got.events, delays: &got.delays, faults: found}
		watchers[i] = w
		streams.Go(func() error {
			if err := wait(ctx, time.Duration(i)*relaySpread/time.Duration(l.streams)); err != nil {
				return err
			}
			return w.run(ctx, each, l.rate)
		})
	}
	o, err := l.happen(ctx, t, p)
	if ended := streams.Wait(); err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	m := measurement{lostDeltas: float64(found.lost.Load()), doubledDeltas: float64(found.doubled.Load()), failures: 0}
	m[longestDelay] = milliseconds(got.delays.quantile(1))
	o.judgeStreams(watchers, got.events.Load(), m)
	return m, o.judge(p.probes, m)
}

// happen carries the mishap out while messages are sent.
func (l outageLoad) happen(ctx context.Context, t *target, p *prober) (outage, error) {
	if err := wait(ctx, relaySpread+outageBefore); err != nil {
		return outage{}, err
	}
	probing, stop := context.WithTimeout(ctx, l.away+outageAfter)
	defer stop()
	var group errgroup.Group
	group.Go(func() error {
		p.run(probing)
		return nil
	})
	o, err := l.mishap(ctx, t.redis, l.away)
	if err != nil {
		stop()
	}
	return o, errors.Join(err, group.Wait())
}

// judgeStreams writes how the streams have fared.
func (o outage) judgeStreams(watchers []*watcher, events int64, m measurement) {
	var durable time.Time
	shown, again := 0, 0
	for _, w := range watchers {
		shown += w.volatile
		again += w.reconnects
		if w.durable.After(durable) {
			durable = w.durable
		}
	}
	m[volatileShare] = 100 * float64(shown) / float64(events)
	m[reconnects] = float64(again)
	m[durableAfter] = max(0, durable.Sub(o.ended).Seconds())
	if durable.IsZero() {
		m[durableAfter] = 0
	}
}

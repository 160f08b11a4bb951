package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	probeClients  = 64 // more than are open at once as long as each is answered in six seconds
	probeInterval = 100 * time.Millisecond
	probePatience = 20 * time.Second
)

// probe is a new message in a session of its own, and what became of it. Times
// are zero for what did not happen.
type probe struct {
	sent     time.Time
	refused  time.Time // the client was told that it will not be run
	accepted time.Time // it runs or waits in the queue
	started  time.Time
	err      error
}

// prober sends a message at fixed times, whether the one before was answered or
// not. Its connections are older than the outage.
type prober struct {
	clients []chatClient
	probes  []probe
}

func newProber(addr string) (*prober, error) {
	p := new(prober)
	for range probeClients {
		c, err := dialChatAt(addr)
		if err != nil {
			p.leave()
			return nil, err
		}
		p.clients = append(p.clients, c)
	}
	return p, nil
}

func (p *prober) leave() {
	for _, c := range p.clients {
		c.abandon()
	}
}

// run sends until the context ends and returns when all answers are there.
func (p *prober) run(ctx context.Context) {
	var (
		clock   = time.NewTicker(probeInterval)
		free    = make(chan chatClient, len(p.clients))
		mu      sync.Mutex
		waiting sync.WaitGroup
	)
	defer clock.Stop()
	defer waiting.Wait()
	for _, c := range p.clients {
		free <- c
	}
	for n := 0; ; n++ {
		select {
		case <-clock.C:
		case <-ctx.Done():
			return
		}
		select {
		case c := <-free:
			waiting.Go(func() {
				result := send(c, fmt.Sprintf("probe-%d", n))
				mu.Lock()
				p.probes = append(p.probes, result)
				mu.Unlock()
				if result.err == nil {
					free <- c
				}
			})
		case <-ctx.Done():
			return
		}
	}
}

// send sends one message and waits until it has ended.
func send(c chatClient, session string) probe {
	p := probe{sent: time.Now()}
	if p.err = c.SetDeadline(p.sent.Add(probePatience)); p.err != nil {
		return p
	}
	if p.err = c.send(runPacket(session, "q-"+session, command(1, 0))); p.err != nil {
		return p
	}
	for {
		event, packet, err := c.event()
		if err != nil {
			p.err = fmt.Errorf("%s: %w", session, err)
			return p
		}
		if bytes.Contains(packet, []byte(`"`+session+`"`)) && p.take(string(event), time.Now()) {
			return p
		}
	}
}

// take notes an event and reports whether it is the last one.
func (p *probe) take(event string, now time.Time) (over bool) {
	switch event {
	case "run.failed":
		if p.accepted.IsZero() {
			p.refused = now
		}
		return true
	case "run.queued":
		p.accept(now)
	case "run.started":
		p.accept(now)
		p.started = now
	case "run.completed":
		return true
	}
	return false
}

func (p *probe) accept(now time.Time) {
	if p.accepted.IsZero() {
		p.accepted = now
	}
}

// outage is when a store was away.
type outage struct{ began, ended time.Time }

// settling is how long an outage may last before refusals have to be fast.
const settling = time.Second

// judge writes what the messages sent around an outage have met.
func (o outage) judge(probes []probe, m measurement) error {
	var first, recovered, started time.Time
	var fast, slowest time.Duration
	for _, p := range probes {
		switch {
		case p.err != nil:
			m[failures]++
		case !p.refused.IsZero():
			first = earlier(first, p.refused)
			if took := p.refused.Sub(p.sent); p.sent.Before(o.ended) {
				slowest = max(slowest, took)
				if p.sent.After(o.began.Add(settling)) {
					fast = max(fast, took)
				}
			}
		case p.accepted.After(o.ended):
			recovered = earlier(recovered, p.accepted)
		}
		if p.started.After(o.ended) {
			started = earlier(started, p.started)
		}
	}
	if first.IsZero() || recovered.IsZero() || started.IsZero() {
		return fmt.Errorf("of %d messages one should have been refused (%t), one accepted afterwards (%t) and one started (%t)",
			len(probes), !first.IsZero(), !recovered.IsZero(), !started.IsZero())
	}
	for _, p := range probes { // a later refusal shows that it was not over yet
		if p.sent.After(o.ended) && p.refused.After(recovered) {
			recovered = p.refused
		}
	}
	m[firstRefusal] = milliseconds(first.Sub(o.began))
	m[fastRefusal] = milliseconds(fast)
	m[slowRefusal] = milliseconds(slowest)
	m[acceptedAfter] = recovered.Sub(o.ended).Seconds()
	m[startedAfter] = started.Sub(o.ended).Seconds()
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

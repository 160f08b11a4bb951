package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	stormInFlight = 512 // handshakes: more would measure the kernel's queue of connections
	stormLimit    = 3 * time.Minute
	stormCalm     = pingInterval + time.Second
	knownDeltas   = 5 // of the run that the clients see before they are cut off
)

// What a client may get in place of the continuation of its connection.
var (
	errForgotten = errors.New("the server does not know the connection")
	errSnapshot  = errors.New("a snapshot came in place of what was missed")
)

// stormLoad is B7: clients that follow sessions lose their connections all at
// once, miss a run, and come back all at once with the position that they have.
type stormLoad struct {
	clients, sessions int
	missed, rate      int // deltas of the run that is missed, and how fast it goes
}

func (l stormLoad) measure(ctx context.Context, t *target) (measurement, error) {
	nodes := t.nodes()
	lost, kept := nodes[0], nodes[len(nodes)-1]
	s := &storm{load: l, addr: kept.addr}
	defer s.leave()
	if err := s.gather(ctx, lost.addr); err != nil {
		return nil, err
	}
	if lost != kept {
		lost.kill()
		t.process, t.more = kept, nil
	}
	s.cut()
	if err := s.run(ctx, "missed", l.missed, l.rate); err != nil {
		return nil, fmt.Errorf("while the clients are away: %w", err)
	}
	m := measurement{missedPer: float64(l.missed)}
	if err := s.come(ctx, t, m); err != nil {
		return nil, err
	}
	held, err := memoryOf(kept.pid)
	m[peakTotal] = float64(held.peak) / 1e6
	return m, err
}

// storm is the state of one measurement.
type storm struct {
	load      stormLoad
	addr      string // of the server that stays
	followers []*follower
	senders   []chatClient // one a session

	got       received
	faults    faults
	joined    atomic.Int64
	forgotten atomic.Int64
	snapshots atomic.Int64
	failed    atomic.Int64
	cause     atomic.Pointer[error] // of the last failure
}

// follower is a client between two connections.
type follower struct {
	chat        chatClient
	session     string
	pid, offset string
}

func sessionName(i int) string { return fmt.Sprintf("storm-%d", i) }

// gather connects all clients and lets them see a first run to its end, so that
// each has a position.
func (s *storm) gather(ctx context.Context, addr string) error {
	for range s.load.sessions {
		c, err := dialChatAt(s.addr)
		if err != nil {
			return err
		}
		s.senders = append(s.senders, c)
	}
	for i := range s.load.clients {
		s.followers = append(s.followers, &follower{session: sessionName(i % s.load.sessions)})
	}
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(connectsInFlight)
	for _, f := range s.followers {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f.join(addr)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("connect the clients: %w", err)
	}
	var watching errgroup.Group
	for _, f := range s.followers {
		watching.Go(func() error { return f.watch() })
	}
	return errors.Join(s.run(ctx, "known", knownDeltas, s.load.rate), watching.Wait())
}

// run lets every session have a run and waits for the end of all.
func (s *storm) run(ctx context.Context, name string, n, rate int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, c := range s.senders {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return runAndRead(c, sessionName(i), name, n, rate)
		})
	}
	return group.Wait()
}

// runAndRead is the sender's view of a run, which has to be whole as well.
func runAndRead(c chatClient, session, name string, n, rate int) error {
	got := new(received)
	d := &deltaReader{total: &got.deltas, events: &got.events, delays: &got.delays}
	if err := c.SetDeadline(time.Now().Add(patience + time.Duration(n)*time.Second/time.Duration(rate))); err != nil {
		return err
	}
	if err := c.send(runPacket(session, name+"-"+session, command(n, rate))); err != nil {
		return err
	}
	if err := c.finish(d); err != nil {
		return fmt.Errorf("%s: %w", session, err)
	}
	return d.complete(n)
}

// cut ends all connections of the followers.
func (s *storm) cut() {
	for _, f := range s.followers {
		f.chat.abandon()
	}
}

// come lets everybody come back and measures until the last one has caught up.
func (s *storm) come(ctx context.Context, t *target, m measurement) error {
	meter, err := startMeter(ctx, t)
	if err != nil {
		return err
	}
	var (
		start   = time.Now()
		gate    = make(chan struct{}, stormInFlight)
		back    sync.WaitGroup
		all     atomic.Int64 // nanoseconds until the last one was connected
		catchUp histogram
	)
	catchUp.on.Store(true)
	for _, f := range s.followers {
		back.Go(func() {
			if s.note(f.comeBack(s, gate, func() { all.Store(int64(time.Since(start))) })) {
				catchUp.add(time.Since(start))
			}
		})
	}
	back.Wait()
	took := time.Since(start)
	if err := meter.stop(ctx, m, s.got.deltas.Load()); err != nil {
		return s.explain(err)
	}
	m[caughtUp] = took.Seconds()
	m[caughtUpHalf] = catchUp.quantile(0.5).Seconds()
	m[connectRate] = float64(s.joined.Load()) / time.Duration(all.Load()).Seconds()
	m[lostDeltas] = float64(s.faults.lost.Load())
	m[doubledDeltas] = float64(s.faults.doubled.Load())
	m[forgotten] = float64(s.forgotten.Load())
	m[snapshots] = float64(s.snapshots.Load())
	m[failures] = float64(s.failed.Load())
	if cause := s.cause.Load(); cause != nil {
		fmt.Fprintf(t.progress, "one of %d clients that failed: %v\n", s.failed.Load(), *cause)
	}
	return nil
}

// note counts how a client fared and reports whether it has everything.
func (s *storm) note(err error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, errForgotten):
		s.forgotten.Add(1)
	case errors.Is(err, errSnapshot):
		s.snapshots.Add(1)
	default:
		s.cause.Store(&err)
		s.failed.Add(1)
	}
	return false
}

// explain adds the last failure of a client.
func (s *storm) explain(err error) error {
	if cause := s.cause.Load(); cause != nil {
		err = fmt.Errorf("%w; a client: %w", err, *cause)
	}
	return err
}

func (s *storm) leave() {
	for _, c := range s.senders {
		c.abandon()
	}
	for _, f := range s.followers {
		if f.chat.wire != nil {
			f.chat.abandon()
		}
	}
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// Times of a breaker (contract 9.1). The pauses between probes stay so short that a
// server that has come back is noticed within two seconds, however long it was away.
const (
	breakAfter   = 300 * time.Millisecond
	probeFirst   = 100 * time.Millisecond
	probeLongest = time.Second
)

// breaker watches one shard. It opens when nothing has been answered for a while
// although something was asked, or when there is nobody to connect to; then
// commands fail at once, and a PING is sent now and again until it is answered.
// It is a hook of the shard's client and safe for concurrent use.
type breaker struct {
	addr   string
	after  time.Duration
	ping   func(context.Context) error
	log    *zap.Logger
	ctx    context.Context
	probes *probes
	// observer is told when it opens and closes.
	observer Observer

	mu      sync.Mutex
	waiting int       // calls without an answer
	since   time.Time // of the last answer, or of the first of those calls
	open    bool
}

var _ redis.Hook = (*breaker)(nil)

// probes are the goroutines that wait for shards to answer again. None starts once
// they are waited for.
type probes struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

func (p *probes) run(probe func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.group.Go(probe)
	}
}

func (p *probes) wait() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.group.Wait()
}

// probing marks the breaker's own commands, which it lets through.
type probing struct{}

// begin asks for leave to send.
func (b *breaker) begin(ctx context.Context) error {
	if ctx.Value(probing{}) != nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent() {
		return errOpen
	}
	if b.waiting == 0 {
		b.since = time.Now()
	}
	b.waiting++
	return nil
}

// silent reports whether the breaker is open, and opens it when it is time. The
// caller holds mu.
func (b *breaker) silent() bool {
	if !b.open && b.waiting > 0 && time.Since(b.since) > b.after && b.ctx.Err() == nil {
		b.trip(fmt.Errorf("no answer for %v", b.after))
	}
	return b.open
}

// refuses reports whether a call would be refused now.
func (b *breaker) refuses() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.silent()
}

// end tells how a call ended.
func (b *breaker) end(ctx context.Context, err error) {
	if ctx.Value(probing{}) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var reply redis.Error
	switch {
	case err == nil, errors.As(err, &reply):
		b.since = time.Now()
	case isDial(err) && !b.open && b.ctx.Err() == nil:
		b.trip(err)
	default:
		b.silent()
	}
	b.waiting--
}

// trip opens the breaker and begins to probe. The caller holds mu.
func (b *breaker) trip(cause error) {
	b.open = true
	b.observer.Breaker(b.addr, true)
	b.log.Warn("redis does not answer", zap.String("address", b.addr), zap.Error(cause))
	b.probes.run(b.probe)
}

// probe asks until there is an answer, then closes the breaker.
func (b *breaker) probe() {
	wait := probeFirst
	for {
		select {
		case <-time.After(jitter(wait)):
		case <-b.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(context.WithValue(b.ctx, probing{}, true), time.Second)
		err := b.ping(ctx)
		cancel()
		var reply redis.Error
		if err == nil || errors.As(err, &reply) {
			break
		}
		if errors.Is(err, redis.ErrClosed) { // the node has left its cluster
			return
		}
		wait = min(2*wait, probeLongest)
	}
	b.mu.Lock()
	b.open, b.since = false, time.Now()
	b.mu.Unlock()
	b.observer.Breaker(b.addr, false)
	b.log.Info("redis answers again", zap.String("address", b.addr))
}

// DialHook implements redis.Hook.
func (b *breaker) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements redis.Hook.
func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b.begin(ctx); err != nil {
			cmd.SetErr(err)
			return err
		}
		err := next(ctx, cmd)
		b.end(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := b.begin(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		err := next(ctx, cmds)
		b.end(ctx, err)
		return err
	}
}

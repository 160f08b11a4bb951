package gateway

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Defaults of a [Prober].
const (
	ProbeTTL        = 2 * time.Minute  // how long a success is believed
	ProbeFailureTTL = 10 * time.Second // how long a failure is believed
)

// Status is what a health page may show about a gateway; it holds no secret.
type Status struct {
	Probed    bool         `json:"probed"`    // false: not asked yet
	Reachable bool         `json:"reachable"` // the last probe succeeded
	Class     ReleaseClass `json:"-"`
	Release   string       `json:"release"` // Class as text
	Version   string       `json:"version,omitempty"`
	Model     string       `json:"model,omitempty"`
	KeySource string       `json:"key_source,omitempty"` // "" = no key
	Cause     string       `json:"cause,omitempty"`      // error class label
	Error     string       `json:"error,omitempty"`      // redacted text, names a missing key setting
	ProbedAt  time.Time    `json:"probed_at,omitzero"`
}

// Prober detects a gateway's class and keeps the answer. Callers that arrive
// while a probe runs share it. It is safe for concurrent use.
type Prober struct {
	client *Client
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	info    Info
	err     *Error
	at      time.Time
	running chan struct{} // closed when the probe that runs is done; nil if none
	closed  bool
}

// NewProber returns a prober of client. It asks nothing until it is asked.
func NewProber(client *Client) *Prober {
	ctx, cancel := context.WithCancel(context.Background())
	return &Prober{client: client, ctx: ctx, cancel: cancel}
}

// Close ends a probe that runs and waits for it.
func (p *Prober) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
}

// Info returns what is known about the gateway, asking it if the last answer is
// too old. After a failure that follows a success it still returns the older
// info together with the *Error.
func (p *Prober) Info(ctx context.Context) (Info, error) {
	p.mu.Lock()
	fresh := p.fresh()
	p.mu.Unlock()
	if !fresh {
		return p.Refresh(ctx)
	}
	return p.result()
}

// Refresh asks the gateway now, or joins a probe that runs.
func (p *Prober) Refresh(ctx context.Context) (Info, error) {
	select {
	case <-p.start():
		return p.result()
	case <-ctx.Done():
		return Info{}, &Error{Class: ClassCanceled, Text: "The gateway probe was cancelled", cause: ctx.Err()}
	}
}

// Status returns the last known facts at once. If they are too old, the gateway is
// asked in the background, so that a later call knows better.
func (p *Prober) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && !p.fresh() {
		p.startLocked()
	}
	s := Status{
		Probed: !p.at.IsZero(), Reachable: !p.at.IsZero() && p.err == nil, ProbedAt: p.at,
		Class: p.info.Class, Release: p.info.Class.String(), Version: p.info.Version, Model: p.info.Model,
		KeySource: p.client.KeySource(),
	}
	if p.err != nil {
		s.Cause, s.Error = p.err.Class.String(), p.err.Text
	}
	return s
}

func (p *Prober) fresh() bool {
	ttl := ProbeTTL
	if p.err != nil {
		ttl = ProbeFailureTTL
	}
	return !p.at.IsZero() && time.Since(p.at) < ttl
}

func (p *Prober) result() (Info, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.info, p.err
	}
	return p.info, nil
}

// start begins a probe unless one runs, and returns when it is done.
func (p *Prober) start() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked()
}

func (p *Prober) startLocked() <-chan struct{} {
	if p.running != nil {
		return p.running
	}
	done := make(chan struct{})
	if p.closed {
		p.err = &Error{Class: ClassCanceled, Text: "The edge is shutting down"}
		close(done)
		return done
	}
	p.running = done
	p.work.Go(func() { p.probe(done) })
	return done
}

func (p *Prober) probe(done chan struct{}) {
	info, err := p.client.detect(p.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(info, err)
	if err == nil {
		p.info = info
	}
	p.err, p.at, p.running = err, time.Now(), nil
	close(done)
}

// note logs what changed since the last probe; p.mu is held.
func (p *Prober) note(info Info, err *Error) {
	switch {
	case err != nil && err.Class != ClassCanceled && (p.err == nil || p.err.Class != err.Class):
		p.client.log.Warn("gateway is not usable", zap.Stringer("cause", err.Class),
			zap.String("error", err.Text), zap.String("key_source", p.client.KeySource()))
	case err == nil && (p.at.IsZero() || p.err != nil || p.info.Class != info.Class):
		p.client.log.Info("gateway found", zap.Stringer("class", info.Class),
			zap.String("version", info.Version), zap.String("key_source", p.client.KeySource()))
	}
}

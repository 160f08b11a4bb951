package auth

import (
	"context"
	"errors"
	"time"
)

// FailureDelay is how long a failed login waits for its answer.
const FailureDelay = time.Second

// maxDelayed bounds the failed logins that wait at one time. Over it they are
// answered at once: holding more of them would cost more than guesses gain.
const maxDelayed = 1024

type delayed struct {
	rules   Authenticator
	delay   time.Duration
	waiting chan struct{}
	failed  func()
}

// Delayed returns a with each failed login answered only after d, or when its
// context ends. There is no lock-out: behind a proxy all users share an address.
// failed, if not nil, is called for each one. A request without any credential is
// no guess: it is answered at once and not counted.
func Delayed(a Authenticator, d time.Duration, failed func()) Authenticator {
	return &delayed{rules: a, delay: d, waiting: make(chan struct{}, maxDelayed), failed: failed}
}

// Authenticate implements Authenticator.
func (d *delayed) Authenticate(ctx context.Context, c Credentials) (*Principal, error) {
	p, err := d.rules.Authenticate(ctx, c)
	if err == nil || !errors.Is(err, ErrFailed) || c.Token == "" {
		return p, err
	}
	if d.failed != nil {
		d.failed()
	}
	select {
	case d.waiting <- struct{}{}:
		defer func() { <-d.waiting }()
	default:
		return nil, err
	}
	timer := time.NewTimer(d.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, err
}

// Review implements Reviewer.
func (d *delayed) Review(p *Principal) (*Principal, bool) { return Review(d.rules, p) }

// Placeholders implements placeholderUser.
func (d *delayed) Placeholders() []string { return Placeholders(d.rules) }

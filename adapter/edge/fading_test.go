package edge

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

// fading is a rule whose principals end at a time, as those of a JWT do.
type fading struct {
	auth.Authenticator
	until atomic.Int64 // Unix nanoseconds
}

// Authenticate implements auth.Authenticator.
func (f *fading) Authenticate(ctx context.Context, c auth.Credentials) (*auth.Principal, error) {
	p, err := f.Authenticator.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	q := *p
	q.Expires = time.Unix(0, f.until.Load())
	return &q, nil
}

// Review implements auth.Reviewer: the end stays what it was.
func (f *fading) Review(p *auth.Principal) (*auth.Principal, bool) {
	q, ok := auth.Review(f.Authenticator, p)
	if !ok {
		return nil, false
	}
	r := *q
	r.Expires = p.Expires
	return &r, true
}

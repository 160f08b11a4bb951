package auth

import (
	"context"
	"errors"
)

// Reviewer is an Authenticator that can decide again about a principal it
// admitted earlier, without his credential: after a change of configuration.
type Reviewer interface {
	// Review answers with the principal as p's rule grants it now; false if the rule
	// that admitted p is not part of it.
	Review(p *Principal) (*Principal, bool)
}

// Review asks a about a principal that was admitted by an earlier generation of
// the configuration. False: his rule is gone, his connections are to be closed.
func Review(a Authenticator, p *Principal) (*Principal, bool) {
	if r, ok := a.(Reviewer); ok {
		return r.Review(p)
	}
	return nil, false
}

// ReviewAny asks the authenticators of all mounts about p. If several of them
// know his rule, the one with his ceiling and sharing decides; if none of those
// matches, it is not clear which mount he came from and the answer is false, so
// that his client connects, and is asked, again.
func ReviewAny(mounts []Authenticator, p *Principal) (*Principal, bool) {
	var found []*Principal
	for _, m := range mounts {
		q, ok := Review(m, p)
		if !ok {
			continue
		}
		if q.Shared == p.Shared && equalCeiling(q.Ceiling, p.Ceiling) {
			return q, true
		}
		found = append(found, q)
	}
	if len(found) == 1 {
		return found[0], true
	}
	return nil, false
}

// chain asks its rules in order.
type chain []Authenticator

// NewChain returns an Authenticator that asks rules in order. The first rule that
// recognises the credential decides, with a principal or with ErrProfile. A rule
// that could not be asked (ErrUnavailable) turns the final ErrFailed into
// ErrUnavailable, since the credential may be its own. No rules: always ErrFailed.
func NewChain(rules ...Authenticator) Authenticator {
	if len(rules) == 1 {
		return rules[0]
	}
	return chain(rules)
}

// Authenticate implements Authenticator.
func (c chain) Authenticate(ctx context.Context, cred Credentials) (*Principal, error) {
	failure := ErrFailed
	for _, rule := range c {
		p, err := rule.Authenticate(ctx, cred)
		switch {
		case err == nil:
			return p, nil
		case errors.Is(err, ErrFailed):
		case errors.Is(err, ErrUnavailable):
			failure = ErrUnavailable
		default:
			return nil, err
		}
	}
	return nil, failure
}

// Review implements Reviewer.
func (c chain) Review(p *Principal) (*Principal, bool) {
	for _, rule := range c {
		if q, ok := Review(rule, p); ok {
			return q, true
		}
	}
	return nil, false
}

// Placeholders implements placeholderUser.
func (c chain) Placeholders() []string {
	var all []string
	for _, rule := range c {
		all = append(all, Placeholders(rule)...)
	}
	return all
}

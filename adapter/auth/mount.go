package auth

import (
	"context"
	"slices"
	"strings"
)

// mounted applies what a mount adds to its rules.
type mounted struct {
	rules   Authenticator
	ceiling []string
	shared  bool
}

// Mounted returns a with the settings of one mount applied: principals get its
// ceiling of profiles (empty: none) and its sharing of sessions, and a profile asked
// for in the handshake must be one the principal may use, else ErrProfile
// (chat-run 1.6).
func Mounted(a Authenticator, ceiling []string, shared bool) Authenticator {
	if len(ceiling) == 0 {
		ceiling = nil
	}
	return &mounted{rules: a, ceiling: slices.Clone(ceiling), shared: shared}
}

// Authenticate implements Authenticator.
func (m *mounted) Authenticate(ctx context.Context, c Credentials) (*Principal, error) {
	p, err := m.rules.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	p = m.apply(p)
	if profile := strings.TrimSpace(c.Profile); profile != "" && !p.MayUse(profile) {
		return nil, ErrProfile
	}
	return p, nil
}

// Review implements Reviewer.
func (m *mounted) Review(p *Principal) (*Principal, bool) {
	q, ok := Review(m.rules, p)
	if !ok {
		return nil, false
	}
	return m.apply(q), true
}

// Placeholders implements placeholderUser.
func (m *mounted) Placeholders() []string { return Placeholders(m.rules) }

// apply returns a copy: a rule may hand out one principal many times.
func (m *mounted) apply(p *Principal) *Principal {
	q := *p
	q.Ceiling = m.ceiling
	q.Shared = m.shared
	return &q
}

// Package auth says who somebody is and which profiles and sessions he may use.
// It knows neither Caddy nor the engine.
package auth

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Principal is an authenticated user as admitted by one rule of one mount. A
// Principal is immutable; a change of rights makes a new one.
type Principal struct {
	User     string   // one namespace for the whole process
	Admin    bool     // all profiles, all sessions, detailed health
	Profiles []string // profiles he may use; ignored for Admin
	Shared   bool     // the mount shares sessions: he opens every session of his profiles
	Ceiling  []string // profiles of the mount, nil: no ceiling; binds Admin too
	Expires  time.Time
	Rule     string // fingerprint of the rule that admitted him, never a secret
}

// MayUse reports whether p may run in, and see sessions of, a profile.
func (p *Principal) MayUse(profile string) bool {
	if p.Ceiling != nil && !slices.Contains(p.Ceiling, profile) {
		return false
	}
	return p.Admin || slices.Contains(p.Profiles, profile)
}

// MayOpen reports whether p may use a stored session.
func (p *Principal) MayOpen(owner, profile string) bool {
	return p.MayUse(profile) && (p.Admin || p.Shared || owner == p.User)
}

// Expired reports whether the credential behind p has ended.
func (p *Principal) Expired(now time.Time) bool {
	return !p.Expires.IsZero() && !now.Before(p.Expires)
}

// Credentials are what a request or a CONNECT packet brought.
type Credentials struct {
	Token    string // CONNECT auth.token, or Authorization: Bearer
	Profile  string // profile asked for in the handshake query, may be empty
	Identity map[string]string
	// Identity holds placeholder values resolved by the web server at the request
	// (rule caddy_user), by placeholder.
}

// Errors of Authenticate. Their texts are the ones of the wire (chat-run 1.6).
var (
	ErrFailed      = errors.New("Authentication failed")
	ErrProfile     = errors.New("Profile access denied")
	ErrUnavailable = errors.New("authentication is not available at the moment")
)

// Authenticator turns credentials into a principal. It may ask another service
// and so may block until ctx ends; callers never hold a lock or a read loop over
// it. Implementations are safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (*Principal, error)
}

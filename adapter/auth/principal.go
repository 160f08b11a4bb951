// Package auth says who somebody is and which profiles and sessions he may use.
// It knows neither Caddy nor the engine.
package auth

import (
	"context"
	"slices"
	"time"
)

// Principal is an authenticated user as admitted by one rule of one mount. A
// Principal is immutable; a change of rights makes a new one.
type Principal struct {
	User     string   // one namespace for the whole process
	Admin    bool     // all profiles, all sessions, detailed health
	Profiles []string // profiles he may use, AllProfiles for every one; ignored for Admin
	Shared   bool     // the mount shares sessions: he opens every session of his profiles
	Ceiling  []string // profiles of the mount, nil: no ceiling; binds Admin too
	Expires  time.Time
	Rule     string // fingerprint of the rule that admitted him, never a secret

	// evidence is what the rule needs to decide about the same person again after a
	// change of its grants (Review): claims or placeholder values, never the token.
	evidence any
}

// AllProfiles in a list of profiles stands for every profile.
const AllProfiles = "*"

// maxProfile is the longest name of a profile, in bytes.
const maxProfile = 64

// ValidProfile reports whether name can be a profile: a lower-case letter or
// digit, then letters, digits, "_" and "-", at most 64 bytes. A name that is not
// valid never reaches a path, a key or a header (AUT-02).
func ValidProfile(name string) bool {
	if name == "" || len(name) > maxProfile {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case (c == '_' || c == '-') && i > 0:
		default:
			return false
		}
	}
	return true
}

// MayUse reports whether p may run in, and see sessions of, a profile.
// Nobody may use a name that is no valid profile.
func (p *Principal) MayUse(profile string) bool {
	if !ValidProfile(profile) {
		return false
	}
	if p.Ceiling != nil && !slices.Contains(p.Ceiling, profile) {
		return false
	}
	return p.Admin || slices.Contains(p.Profiles, profile) || slices.Contains(p.Profiles, AllProfiles)
}

// Same reports whether p and o are one user admitted by one rule: what a sid is
// bound to.
func (p *Principal) Same(o *Principal) bool {
	return p.User == o.User && p.Rule == o.Rule
}

// Visible returns the profiles that p may use; nil: all of them. It is for
// queries; a list of one that may use none is empty, not nil.
func (p *Principal) Visible() []string {
	if p.Admin || slices.Contains(p.Profiles, AllProfiles) {
		return slices.Clone(p.Ceiling)
	}
	visible := make([]string, 0, len(p.Profiles))
	for _, profile := range p.Profiles {
		if p.MayUse(profile) {
			visible = append(visible, profile)
		}
	}
	return visible
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
	Token   string // CONNECT auth.token, or Authorization: Bearer
	Profile string // profile asked for in the handshake query, may be empty
	// Identity holds values resolved by the web server at the request (rule
	// caddy_user), by the expression that Placeholders returned.
	Identity map[string]string
}

// Errors of Authenticate. Their texts are the ones of the wire (chat-run 1.6).
var (
	ErrFailed      error = wireError("Authentication failed")
	ErrProfile     error = wireError("Profile access denied")
	ErrUnavailable error = wireError("authentication is not available at the moment")
)

// wireError is an error whose text is sent to clients as it is.
type wireError string

// Error implements error.
func (e wireError) Error() string { return string(e) }

// Authenticator turns credentials into a principal. It may ask another service
// and so may block until ctx ends; callers never hold a lock or a read loop over
// it. Implementations are safe for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, c Credentials) (*Principal, error)
}

package auth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultPlaceholder is where authentication directives of the web server leave
// the user.
const DefaultPlaceholder = "{http.auth.user.id}"

// Identity admits whom the web server has authenticated (rule caddy_user). The
// token is ignored.
type Identity struct {
	placeholder string
	grant       Grant
	rule        string
}

// NewIdentity makes the rule. placeholder is the expression that names the user;
// empty means DefaultPlaceholder. Profiles of the grant may be expressions with
// placeholders too; their values are split at comma and space.
func NewIdentity(placeholder string, grant Grant) (*Identity, error) {
	if placeholder == "" {
		placeholder = DefaultPlaceholder
	}
	if !isExpression(placeholder) {
		return nil, fmt.Errorf("auth: caddy_user: %q is not a placeholder, for example %s", placeholder, DefaultPlaceholder)
	}
	names := slices.DeleteFunc(slices.Clone(grant.Profiles), isExpression)
	if err := (Grant{Profiles: names}).Validate(); err != nil {
		return nil, fmt.Errorf("auth: caddy_user: %w", err)
	}
	return &Identity{placeholder: placeholder, grant: grant, rule: fingerprint("caddy_user", placeholder)}, nil
}

func isExpression(s string) bool {
	_, rest, ok := strings.Cut(s, "{")
	return ok && strings.Contains(rest, "}")
}

// placeholderUser is an authenticator that needs values from the web server.
type placeholderUser interface {
	Placeholders() []string
}

// Placeholders returns the expressions whose values a needs in
// Credentials.Identity. The web server resolves each one at the request, unknown
// placeholders to nothing, and stores the value under the expression as it is
// returned here.
func Placeholders(a Authenticator) []string {
	if u, ok := a.(placeholderUser); ok {
		return u.Placeholders()
	}
	return nil
}

// Placeholders implements placeholderUser.
func (i *Identity) Placeholders() []string {
	all := []string{i.placeholder}
	for _, name := range i.grant.Profiles {
		if isExpression(name) {
			all = append(all, name)
		}
	}
	return all
}

// Authenticate implements Authenticator.
func (i *Identity) Authenticate(_ context.Context, c Credentials) (*Principal, error) {
	p, ok := i.principal(c.Identity)
	if !ok {
		return nil, ErrFailed
	}
	return p, nil
}

// Review implements Reviewer. A profile expression that is new since the request
// has no value and grants nothing until the client connects again.
func (i *Identity) Review(p *Principal) (*Principal, bool) {
	values, ok := p.evidence.(map[string]string)
	if !ok || p.Rule != i.rule {
		return nil, false
	}
	return i.principal(values)
}

func (i *Identity) principal(values map[string]string) (*Principal, bool) {
	user := values[i.placeholder]
	if !validUser(user) {
		return nil, false
	}
	p := &Principal{User: user, Admin: i.grant.Admin, Rule: i.rule, evidence: maps.Clone(values)}
	if len(i.grant.Profiles) == 0 {
		p.Profiles = i.grant.profiles()
	}
	for _, name := range i.grant.Profiles {
		if isExpression(name) {
			p.Profiles = append(p.Profiles, splitProfiles(values[name])...)
		} else {
			p.Profiles = append(p.Profiles, name)
		}
	}
	return p, true
}

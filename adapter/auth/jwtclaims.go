package auth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// claimRules turn the claims of a verified token into a principal.
type claimRules struct {
	require  map[string]string
	user     string
	profiles string
	admin    map[string]string
	users    map[string][]string
	grant    Grant
	leeway   time.Duration
}

func newClaimRules(cfg JWTConfig) (claimRules, error) {
	r := claimRules{
		require: cfg.Require, admin: cfg.Admin, users: cfg.Users, grant: cfg.Grant,
		user: cfg.UserClaim, profiles: cfg.ProfilesClaim, leeway: max(cfg.Leeway, 0),
	}
	if r.user == "" {
		r.user = "sub"
	}
	if r.profiles == "" {
		r.profiles = "profiles"
	}
	if cfg.Leeway == 0 {
		r.leeway = DefaultLeeway
	}
	if err := r.grant.Validate(); err != nil {
		return r, fmt.Errorf("auth: jwt: %w", err)
	}
	for name, profiles := range r.users {
		if err := (Grant{Profiles: profiles}).Validate(); err != nil {
			return r, fmt.Errorf("auth: jwt: user %q: %w", name, err)
		}
	}
	return r, nil
}

// principal answers false if the claims do not meet the rule.
func (r *claimRules) principal(claims jwt.MapClaims) (*Principal, bool) {
	for claim, want := range r.require {
		if !claimHas(lookup(claims, claim), want) {
			return nil, false
		}
	}
	user, ok := scalar(lookup(claims, r.user))
	if !ok || !validUser(user) {
		return nil, false
	}
	p := &Principal{User: user, Admin: r.grant.Admin, Profiles: r.profilesOf(user, claims)}
	for claim, want := range r.admin {
		p.Admin = p.Admin || claimHas(lookup(claims, claim), want)
	}
	return p, true
}

// profilesOf: a profiles claim that is there decides even when it is empty.
func (r *claimRules) profilesOf(user string, claims jwt.MapClaims) []string {
	if profiles, ok := r.users[user]; ok {
		return slices.Clone(profiles)
	}
	switch v := lookup(claims, r.profiles).(type) {
	case nil:
		return r.grant.profiles()
	case string:
		return splitProfiles(v)
	case []any:
		var names []string
		for _, item := range v {
			if name, ok := item.(string); ok && ValidProfile(name) {
				names = append(names, name)
			}
		}
		return names
	default:
		return nil
	}
}

// lookup finds a claim by its name, or by a path with dots into objects.
func lookup(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	head, rest, ok := strings.Cut(name, ".")
	if !ok {
		return nil
	}
	inner, ok := claims[head].(map[string]any)
	if !ok {
		return nil
	}
	return lookup(inner, rest)
}

// claimHas reports whether a claim is want, or is a list that contains it.
func claimHas(claim any, want string) bool {
	if list, ok := claim.([]any); ok {
		return slices.ContainsFunc(list, func(item any) bool { return claimHas1(item, want) })
	}
	return claimHas1(claim, want)
}

func claimHas1(claim any, want string) bool {
	if b, ok := claim.(bool); ok {
		return strconv.FormatBool(b) == want
	}
	s, ok := scalar(claim)
	return ok && s == want
}

// scalar renders a non-empty string or a number. Numbers keep their digits: two
// large ids must not become one.
func scalar(claim any) (string, bool) {
	switch v := claim.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	default:
		return "", false
	}
}

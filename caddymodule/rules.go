package caddymodule

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Bounds of the tolerated clock difference of a JWT.
const minLeeway, maxLeeway = time.Second, 10 * time.Minute

// Values of the word sessions.
const (
	sessionsPrivate = "private"
	sessionsShared  = "shared"
)

func checkSessions(value string) error {
	if value != "" && value != sessionsPrivate && value != sessionsShared {
		return fmt.Errorf("sessions %q is unknown (private, shared)", value)
	}
	return nil
}

// checkCombination tests what only shows when the whole block is read.
func (h *Handler) checkCombination() error {
	is := func(kind string) func(AuthRule) bool {
		return func(r AuthRule) bool { return r.Type == kind }
	}
	if len(h.Auth) > 1 && slices.ContainsFunc(h.Auth, is(ruleOff)) {
		return errors.New("auth: off cannot be combined with other rules")
	}
	if slices.Contains(h.Origins, "*") {
		if len(h.Origins) > 1 {
			return errors.New("origins: * cannot be combined with other origins")
		}
		if slices.ContainsFunc(h.Auth, is(ruleCaddyUser)) {
			return errors.New("origins: * cannot be combined with caddy_user")
		}
	}
	return nil
}

// check tests a rule of a JSON configuration as far as it can be without its
// placeholders.
func (r AuthRule) check() error {
	rest := r
	rest.Type, rest.Profiles, rest.Admin = "", nil, AdminGrant{}
	switch r.Type {
	case ruleToken:
		rest.User, rest.Token = "", ""
	case ruleJWT:
		rest.Secrets, rest.PublicKeys, rest.Issuer, rest.Audiences, rest.Require = nil, nil, "", nil, nil
		rest.UserClaim, rest.ProfilesClaim, rest.Users, rest.Leeway = "", "", nil, 0
	case ruleCaddyUser:
		rest.Placeholder = ""
	case ruleOff:
		rest.Profiles, rest.Admin = r.Profiles, r.Admin
	default:
		return fmt.Errorf("auth: type %q is unknown (%s)", r.Type, strings.Join(ruleTypes, ", "))
	}
	if !reflect.ValueOf(rest).IsZero() {
		return fmt.Errorf("auth: a rule of type %s has fields of another type", r.Type)
	}
	if r.Type != ruleJWT && len(r.Admin.Claims) > 0 {
		return fmt.Errorf("auth: %s: admin by claim is only for jwt", r.Type)
	}
	if r.Leeway != 0 {
		if err := inRange("auth: jwt: leeway", time.Duration(r.Leeway), minLeeway, maxLeeway); err != nil {
			return err
		}
	}
	for _, err := range []error{r.checkToken(), r.checkPlaceholder()} {
		if err != nil {
			return err
		}
	}
	if err := r.checkProfiles(); err != nil {
		return fmt.Errorf("auth: %s: %w", r.Type, err)
	}
	return nil
}

func (r AuthRule) checkToken() error {
	switch {
	case r.Type != ruleToken:
		return nil
	case r.User == "":
		return errors.New("auth: token without a user")
	case r.Token == "":
		return fmt.Errorf("auth: token for user %q is empty", r.User)
	}
	return nil
}

func (r AuthRule) checkPlaceholder() error {
	if r.Placeholder != "" && !hasPlaceholder(r.Placeholder) {
		return fmt.Errorf("auth: caddy_user: %q is not a placeholder, for example {http.auth.user.id}", r.Placeholder)
	}
	return nil
}

// checkProfiles tests the names; the profiles of caddy_user may be placeholders.
func (r AuthRule) checkProfiles() error {
	for _, profile := range r.Profiles {
		if profile == "*" || r.Type == ruleCaddyUser && hasPlaceholder(profile) {
			continue
		}
		if err := checkProfile(profile); err != nil {
			return fmt.Errorf("profiles: %w", err)
		}
	}
	return nil
}

package caddymodule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// parseDirective is a plain directive, not a handler directive, because it has
// its own look at the matcher token: a path that the handler can never answer is
// a misunderstanding, and silence would hide it.
func parseDirective(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next()
	if h.NextArg() {
		if err := checkMatcher(h.Val()); err != nil {
			return nil, h.WrapErr(err)
		}
		h.Reset()
		h.Next()
	}
	matchers, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	handler := new(Handler)
	if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	return h.NewRoute(matchers, handler), nil
}

func checkMatcher(token string) error {
	switch {
	case token == "*" || token == "/*" || strings.HasPrefix(token, "@"):
		return nil
	case !strings.HasPrefix(token, "/"):
		return fmt.Errorf("%s takes no argument but a matcher, got %q", directiveName, token)
	case strings.HasPrefix(token, "/socket.io"), strings.HasPrefix(token, "/chat-run"):
		return nil
	}
	base := strings.TrimRight(token, "/*")
	if base == "" || strings.Contains(base, "*") {
		base = "/app"
	}
	return fmt.Errorf("%[1]s answers /socket.io/ and /chat-run/ only; to mount it under %[2]s use: handle_path %[2]s/* { %[1]s }", directiveName, base)
}

// UnmarshalCaddyfile reads the directive:
//
//	hermes_edge [<matcher>] {
//		auth     <rule> | { <rules> }
//		origins  <origin...>|*
//		profiles <profile...>
//		sessions private|shared
//		page     off
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.Errf("%s takes no argument but a matcher, got %q", directiveName, d.Val())
	}
	err := parseBlock(d, directiveName, "", []word{
		{name: "auth", block: true, parse: func(args []string) error { return h.parseAuth(d, args) }},
		{name: "origins", parse: func(args []string) error {
			if len(args) == 0 {
				return errors.New("origins: missing origin, for example: origins https://chat.example.com")
			}
			for _, origin := range args {
				if err := checkOrigin(origin); err != nil {
					return err
				}
			}
			h.Origins = args
			return nil
		}},
		{name: "profiles", parse: func(args []string) error {
			if len(args) == 0 {
				return errors.New("profiles: missing profile, for example: profiles default work")
			}
			for _, profile := range args {
				if err := checkProfile(profile); err != nil {
					return fmt.Errorf("profiles: %w", err)
				}
			}
			h.Profiles = args
			return nil
		}},
		{name: "sessions", parse: one("sessions", "private", func(value string) error {
			h.Sessions = value
			return checkSessions(value)
		})},
		{name: "page", parse: one("page", "off", func(value string) error {
			if value != "off" {
				return fmt.Errorf("page %q is unknown (off)", value)
			}
			h.Page = new(bool)
			return nil
		})},
	})
	if err != nil {
		return err
	}
	if err := h.checkCombination(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (h *Handler) parseAuth(d *caddyfile.Dispenser, args []string) error {
	if len(args) > 0 {
		h.Auth = []AuthRule{{Type: args[0]}}
		return h.Auth[0].parse(d, args[1:])
	}
	words := make([]word, 0, len(ruleTypes))
	for _, kind := range ruleTypes {
		words = append(words, word{name: kind, rep: true, block: true, parse: func(args []string) error {
			rule := AuthRule{Type: kind}
			err := rule.parse(d, args)
			h.Auth = append(h.Auth, rule)
			return err
		}})
	}
	if err := parseBlock(d, "auth", "", words); err != nil {
		return err
	}
	if len(h.Auth) == 0 {
		return errors.New("auth: no rule; write at least one (token, jwt, caddy_user, off), or leave auth out for a generated token")
	}
	return nil
}

// parse reads one rule and its block.
func (r *AuthRule) parse(d *caddyfile.Dispenser, args []string) error {
	prefix := "auth: " + r.Type + ": "
	switch r.Type {
	case ruleToken:
		if len(args) != 2 {
			return errors.New("auth: token takes a user and a token, for example: token alice {env.ALICE_TOKEN}")
		}
		r.User, r.Token = args[0], args[1]
		if err := r.checkToken(); err != nil {
			return err
		}
		return parseBlock(d, "auth token", prefix, r.grantWords())
	case ruleJWT:
		if len(args) != 0 {
			return errors.New("auth: jwt takes a block and no argument")
		}
		return parseBlock(d, "auth jwt", prefix, r.jwtWords())
	case ruleCaddyUser:
		if len(args) > 1 {
			return errors.New("auth: caddy_user takes at most one placeholder, for example: caddy_user {http.auth.user.id}")
		}
		r.Placeholder = strings.Join(args, "")
		if err := r.checkPlaceholder(); err != nil {
			return err
		}
		return parseBlock(d, "auth caddy_user", prefix, r.grantWords())
	case ruleOff:
		if len(args) != 0 || d.NextBlock(d.Nesting()) {
			return errors.New("auth: off takes no value and no block")
		}
		return nil
	}
	kinds := make([]word, 0, len(ruleTypes))
	for _, kind := range ruleTypes {
		kinds = append(kinds, word{name: kind})
	}
	return errors.New(unknownWord("auth", r.Type, kinds))
}

func (r *AuthRule) grantWords() []word {
	return []word{
		{name: "profiles", parse: r.parseProfiles},
		{name: "admin", parse: bare("admin", &r.Admin.All)},
	}
}

func (r *AuthRule) parseProfiles(args []string) error {
	if len(args) == 0 {
		return errors.New("profiles: missing profile, for example: profiles default work")
	}
	r.Profiles = args
	return r.checkProfiles()
}

func (r *AuthRule) jwtWords() []word {
	list := func(name, example string, target *[]string) word {
		return word{name: name, rep: true, parse: one(name, example, func(value string) error {
			if value == "" {
				return fmt.Errorf("%s is empty", name)
			}
			*target = append(*target, value)
			return nil
		})}
	}
	return []word{
		list("secret", "{env.AUTH_JWT_SECRET}", &r.Secrets),
		list("public_key", "/etc/hermes-edge/jwt.pem", &r.PublicKeys),
		list("audience", "hermes-web-ui", &r.Audiences),
		{name: "issuer", parse: text("issuer", "https://login.example.com", &r.Issuer)},
		{name: "require", rep: true, parse: claims("require", "require type access", &r.Require)},
		{name: "user_claim", parse: text("user_claim", "sub", &r.UserClaim)},
		{name: "profiles_claim", parse: text("profiles_claim", "profiles", &r.ProfilesClaim)},
		{name: "user", rep: true, parse: r.parseUser},
		{name: "leeway", parse: duration("leeway", "30s", minLeeway, maxLeeway, &r.Leeway)},
		{name: "profiles", parse: r.parseProfiles},
		{name: "admin", parse: func(args []string) error {
			if len(args) == 0 {
				r.Admin.All = true
				return nil
			}
			return claims("admin", "admin role super_admin", &r.Admin.Claims)(args)
		}},
	}
}

// claims is an option with a claim and its value.
func claims(name, example string, target *map[string]string) func([]string) error {
	return func(args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("%s takes a claim and a value, for example: %s", name, example)
		}
		if *target == nil {
			*target = make(map[string]string)
		}
		if _, twice := (*target)[args[0]]; twice {
			return fmt.Errorf("%s %s is given twice", name, args[0])
		}
		(*target)[args[0]] = args[1]
		return nil
	}
}

func (r *AuthRule) parseUser(args []string) error {
	if len(args) < 2 {
		return errors.New("user takes a name and profiles, for example: user alice default work")
	}
	for _, profile := range args[1:] {
		if profile == "*" {
			continue
		}
		if err := checkProfile(profile); err != nil {
			return fmt.Errorf("user %q: %w", args[0], err)
		}
	}
	if r.Users == nil {
		r.Users = make(map[string][]string)
	}
	if _, twice := r.Users[args[0]]; twice {
		return fmt.Errorf("user %q is given twice", args[0])
	}
	r.Users[args[0]] = slices.Clone(args[1:])
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Handler)(nil)

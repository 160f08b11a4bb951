package caddymodule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

// authBuilder makes the authenticator of one mount of its rules.
type authBuilder struct {
	repl   *caddy.Replacer
	env    environment
	logger *zap.Logger
}

// build keeps the order of the rules. Neighbouring tokens become one
// authenticator, so that a token is compared with all of them in constant time.
// No rules: nil, which stands for the generated access token.
func (b authBuilder) build(rules []AuthRule) (auth.Authenticator, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	var chain []auth.Authenticator
	for i := 0; i < len(rules); {
		next := i + 1
		for rules[i].Type == ruleToken && next < len(rules) && rules[next].Type == ruleToken {
			next++
		}
		rule, err := b.rule(rules[i:next])
		if err != nil {
			return nil, err
		}
		chain = append(chain, rule)
		i = next
	}
	return auth.NewChain(chain...), nil
}

// rule builds one authenticator of one rule, or of several tokens.
func (b authBuilder) rule(rules []AuthRule) (auth.Authenticator, error) {
	for _, r := range rules {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	switch r := rules[0]; r.Type {
	case ruleToken:
		return b.tokens(rules)
	case ruleJWT:
		return b.jwt(r)
	case ruleCaddyUser:
		return auth.NewIdentity(r.Placeholder, r.grant())
	default:
		return auth.Off{}, nil
	}
}

func (r AuthRule) grant() auth.Grant {
	return auth.Grant{Profiles: r.Profiles, Admin: r.Admin.All}
}

func (b authBuilder) tokens(rules []AuthRule) (auth.Authenticator, error) {
	entries := make([]auth.TokenRule, 0, len(rules))
	for _, r := range rules {
		token, err := b.secret(r.Token)
		if err != nil {
			return nil, fmt.Errorf("auth: token for user %q: %w", r.User, err)
		}
		if token == "" {
			return nil, fmt.Errorf("auth: token for user %q is empty (is %s set?)", r.User, r.Token)
		}
		user, err := resolveRequired(b.repl, r.User)
		if err != nil {
			return nil, fmt.Errorf("auth: token: user %s: %w", r.User, err)
		}
		entries = append(entries, auth.TokenRule{User: user, Token: token, Grant: r.grant()})
	}
	tokens, warnings, err := auth.NewTokens(entries...)
	b.warn(warnings)
	return tokens, err
}

func (b authBuilder) jwt(r AuthRule) (auth.Authenticator, error) {
	secrets := make([]string, 0, len(r.Secrets))
	for _, configured := range r.Secrets {
		secret, err := b.secret(configured)
		if err != nil {
			return nil, fmt.Errorf("auth: jwt: secret: %w", err)
		}
		if secret == "" {
			return nil, fmt.Errorf("auth: jwt: secret is empty (is %s set?)", placeholderOnly(configured))
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 && len(r.PublicKeys) == 0 {
		secret := b.env.jwtSecret()
		if secret == "" {
			return nil, fmt.Errorf("auth: jwt: no key; write secret or public_key, or set %s", envJWTSecret)
		}
		secrets = append(secrets, secret)
	}
	rule, warnings, err := auth.NewJWT(auth.JWTConfig{
		Secrets: secrets, PublicKeys: r.PublicKeys, Issuer: r.Issuer,
		Audiences: r.Audiences, Require: maps.Clone(r.Require),
		UserClaim: r.UserClaim, ProfilesClaim: r.ProfilesClaim,
		Admin: maps.Clone(r.Admin.Claims), Users: maps.Clone(r.Users),
		Grant: r.grant(), Leeway: time.Duration(r.Leeway),
	})
	b.warn(warnings)
	return rule, err
}

// secret resolves a secret. Its errors never hold the value.
func (b authBuilder) secret(configured string) (string, error) {
	value, err := resolve(b.repl, configured)
	if errors.Is(err, errEmptyFile) {
		return "", nil
	}
	return value, err
}

func (b authBuilder) warn(warnings []string) {
	for _, w := range slices.Compact(warnings) {
		b.logger.Warn(w)
	}
}

// placeholderOnly keeps a literal secret out of an error text.
func placeholderOnly(configured string) string {
	if hasPlaceholder(configured) {
		return configured
	}
	return "it"
}

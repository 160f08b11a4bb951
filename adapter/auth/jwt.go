package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// DefaultLeeway is how far the clock of the token's issuer may be off.
const DefaultLeeway = 30 * time.Second

// JWTConfig describes the tokens of one issuer. At least one key is needed.
type JWTConfig struct {
	Secrets    []string // for HS256, HS384, HS512
	PublicKeys []string // files with PEM public keys or certificates: RS*, PS*, ES*, EdDSA
	Issuer     string   // required value of iss; empty: any
	Audiences  []string // one of them must be in aud; empty: any
	// Require lists claims that must have a value. A claim that is a list must
	// contain it; dots in the name lead into objects, as everywhere below.
	Require       map[string]string
	UserClaim     string // empty: sub
	ProfilesClaim string // empty: profiles
	// Admin lists claims and values that make a user admin, each one on its own.
	Admin map[string]string
	// Users gives profiles by user name; it beats the profiles claim and Grant.
	Users map[string][]string
	// Grant is for users that neither Users nor the profiles claim speaks of.
	Grant  Grant
	Leeway time.Duration // zero: DefaultLeeway; negative: none
}

// JWT admits by signed tokens (RFC 7519). A token must expire, and its algorithm
// must fit the kind of the key that verifies it.
type JWT struct {
	keys   []jwtKey
	claims claimRules
	parser []jwt.ParserOption
}

// jwtKey is a key, the algorithms it may verify, and the fingerprint of the rule
// for tokens signed with it: a connection outlives the arrival of a new key, and
// ends with the removal of its own.
type jwtKey struct {
	key        any
	algorithms []string
	rule       string
}

// evidence of a JWT is its claims.
type jwtEvidence struct {
	claims  jwt.MapClaims
	expires time.Time
}

// NewJWT checks the configuration and reads the key files. Warnings are for the
// operator's log.
func NewJWT(cfg JWTConfig) (*JWT, []string, error) {
	rules, err := newClaimRules(cfg)
	if err != nil {
		return nil, nil, err
	}
	keys, warnings, err := loadKeys(cfg)
	if err != nil {
		return nil, nil, err
	}
	if len(keys) == 0 {
		return nil, nil, errors.New("auth: jwt: wants a secret or a public_key")
	}
	identity := cfg.identity()
	for i := range keys {
		keys[i].rule = fingerprint(append([]string{"jwt", keys[i].rule}, identity...)...)
	}
	options := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(rules.leeway), jwt.WithStrictDecoding(), jwt.WithJSONNumber()}
	if cfg.Issuer != "" {
		options = append(options, jwt.WithIssuer(cfg.Issuer))
	}
	if len(cfg.Audiences) > 0 {
		options = append(options, jwt.WithAudience(cfg.Audiences...))
	}
	return &JWT{keys: keys, claims: rules, parser: options}, warnings, nil
}

// identity returns what makes a rule the same one after a change of its grants.
func (cfg JWTConfig) identity() []string {
	parts := []string{cfg.Issuer, cfg.UserClaim, fmt.Sprint(len(cfg.Audiences))}
	parts = append(parts, slices.Sorted(slices.Values(cfg.Audiences))...)
	for _, claim := range slices.Sorted(maps.Keys(cfg.Require)) {
		parts = append(parts, claim, cfg.Require[claim])
	}
	return parts
}

// Authenticate implements Authenticator. A token that no key verifies, that is
// not valid now, or whose claims do not meet the rule is ErrFailed.
func (j *JWT) Authenticate(_ context.Context, c Credentials) (*Principal, error) {
	if c.Token == "" || len(c.Token) > maxToken {
		return nil, ErrFailed
	}
	for _, key := range j.keys {
		claims, err := j.verify(c.Token, key)
		if errors.Is(err, jwt.ErrTokenSignatureInvalid) {
			continue // another key may have signed it
		}
		if err != nil {
			return nil, ErrFailed
		}
		return j.admit(claims, key.rule)
	}
	return nil, ErrFailed
}

func (j *JWT) verify(token string, key jwtKey) (jwt.MapClaims, error) {
	claims := jwt.MapClaims{}
	options := append(slices.Clone(j.parser), jwt.WithValidMethods(key.algorithms))
	_, err := jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return key.key, nil }, options...)
	return claims, err
}

func (j *JWT) admit(claims jwt.MapClaims, rule string) (*Principal, error) {
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil {
		return nil, ErrFailed
	}
	p, ok := j.claims.principal(claims)
	if !ok {
		return nil, ErrFailed
	}
	p.Rule = rule
	p.Expires = exp.Add(j.claims.leeway)
	p.evidence = jwtEvidence{claims: claims, expires: p.Expires}
	return p, nil
}

// Review implements Reviewer.
func (j *JWT) Review(p *Principal) (*Principal, bool) {
	e, ok := p.evidence.(jwtEvidence)
	if !ok || !slices.ContainsFunc(j.keys, func(k jwtKey) bool { return k.rule == p.Rule }) {
		return nil, false
	}
	q, ok := j.claims.principal(e.claims)
	if !ok {
		return nil, false
	}
	q.Rule, q.Expires, q.evidence = p.Rule, e.expires, e
	return q, true
}

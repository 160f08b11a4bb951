package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// hashPrefix marks a configured token that is given by its hash.
const hashPrefix = "sha256:"

// minToken is the length under which a token gets a warning, in bytes.
const minToken = 16

// maxToken is the longest credential that is looked at, in bytes.
const maxToken = 16 << 10

// TokenRule is one static token of one user.
type TokenRule struct {
	User  string
	Token string // the secret itself, or sha256: and the hex digest of it
	Grant Grant
}

// CheckToken examines a configured token. An error means that it cannot be used,
// a warning that it should not be. Neither text contains the token.
func CheckToken(user, token string) (warning string, err error) {
	if !validUser(user) {
		return "", fmt.Errorf("auth: token: %q is not a user name: want 1 to %d bytes without control characters", user, maxUser)
	}
	if token == "" {
		return "", fmt.Errorf("auth: token for user %q is empty", user)
	}
	if digest, ok := strings.CutPrefix(token, hashPrefix); ok {
		if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
			return "", fmt.Errorf("auth: token for user %q: %s wants %d hex digits", user, hashPrefix, 2*sha256.Size)
		}
		return "", nil
	}
	if len(token) > maxToken {
		return "", fmt.Errorf("auth: token for user %q is longer than %d bytes", user, maxToken)
	}
	if len(token) < minToken {
		return fmt.Sprintf("auth: token for user %q is shorter than %d characters and can be guessed", user, minToken), nil
	}
	return "", nil
}

// Tokens admits by static tokens. It keeps only their SHA-256 and compares a
// token with every entry, in constant time.
type Tokens struct {
	entries []tokenEntry
}

type tokenEntry struct {
	digest [sha256.Size]byte
	user   string
	grant  Grant
	rule   string
}

// NewTokens makes one authenticator of all static tokens of a chain. A user may
// have several tokens, for rotation. warnings are for the operator's log.
func NewTokens(rules ...TokenRule) (tokens *Tokens, warnings []string, err error) {
	t := &Tokens{entries: make([]tokenEntry, 0, len(rules))}
	owners := make(map[[sha256.Size]byte]string, len(rules))
	for _, r := range rules {
		warning, err := CheckToken(r.User, r.Token)
		if err != nil {
			return nil, nil, err
		}
		if warning != "" {
			warnings = append(warnings, warning)
		}
		if err := r.Grant.Validate(); err != nil {
			return nil, nil, fmt.Errorf("auth: token for user %q: %w", r.User, err)
		}
		digest := tokenDigest(r.Token)
		if owner, dup := owners[digest]; dup {
			return nil, nil, fmt.Errorf("auth: token for user %q is also a token for user %q", r.User, owner)
		}
		owners[digest] = r.User
		t.entries = append(t.entries, tokenEntry{
			digest: digest, user: r.User, grant: r.Grant,
			rule: fingerprint("token", r.User, string(digest[:])),
		})
	}
	if len(t.entries) == 0 {
		return nil, nil, errors.New("auth: token wants a user and a token")
	}
	return t, warnings, nil
}

func tokenDigest(token string) (digest [sha256.Size]byte) {
	if hash, ok := strings.CutPrefix(token, hashPrefix); ok {
		// CheckToken has seen that it is a digest of the right length.
		_, _ = hex.Decode(digest[:], []byte(hash))
		return digest
	}
	return sha256.Sum256([]byte(token))
}

// Authenticate implements Authenticator.
func (t *Tokens) Authenticate(_ context.Context, c Credentials) (*Principal, error) {
	if c.Token == "" || len(c.Token) > maxToken {
		return nil, ErrFailed
	}
	i := t.find(sha256.Sum256([]byte(c.Token)))
	if i < 0 {
		return nil, ErrFailed
	}
	return t.entries[i].principal(), nil
}

// find returns the index of the entry with digest, -1 if there is none. Its time
// depends on the number of entries only: no entry ends the search.
func (t *Tokens) find(digest [sha256.Size]byte) int {
	found := -1
	for i := range t.entries {
		equal := subtle.ConstantTimeCompare(digest[:], t.entries[i].digest[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	return found
}

// Review implements Reviewer.
func (t *Tokens) Review(p *Principal) (*Principal, bool) {
	for i := range t.entries {
		if t.entries[i].rule == p.Rule {
			return t.entries[i].principal(), true
		}
	}
	return nil, false
}

func (e *tokenEntry) principal() *Principal {
	return &Principal{User: e.user, Admin: e.grant.Admin, Profiles: e.grant.profiles(), Rule: e.rule}
}

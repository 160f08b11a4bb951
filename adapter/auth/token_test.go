package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

const (
	aliceToken = "alice-secret-0123456789"
	bobToken   = "bob-secret-0123456789"
)

func newTokens(t *testing.T, rules ...TokenRule) *Tokens {
	t.Helper()
	tokens, warnings, err := NewTokens(rules...)
	if err != nil || len(warnings) > 0 {
		t.Fatalf("NewTokens: %v, warnings %q", err, warnings)
	}
	return tokens
}

func TestTokens(t *testing.T) {
	sum := sha256.Sum256([]byte(bobToken))
	tokens := newTokens(t,
		TokenRule{User: "alice", Token: aliceToken, Grant: Grant{Profiles: []string{"a", "b"}}},
		TokenRule{User: "alice", Token: aliceToken + "-next", Grant: Grant{Admin: true}},
		TokenRule{User: "bob", Token: "sha256:" + hex.EncodeToString(sum[:])},
	)
	p := admitted(t, tokens, Credentials{Token: aliceToken})
	if p.User != "alice" || p.Admin || !slices.Equal(p.Profiles, []string{"a", "b"}) || p.Rule == "" || !p.Expires.IsZero() {
		t.Errorf("alice: %+v", p)
	}
	next := admitted(t, tokens, Credentials{Token: aliceToken + "-next"})
	if next.User != "alice" || !next.Admin || next.Rule == p.Rule {
		t.Errorf("alice's second token: %+v", next)
	}
	bob := admitted(t, tokens, Credentials{Token: bobToken})
	if bob.User != "bob" || !slices.Equal(bob.Profiles, []string{DefaultProfile}) {
		t.Errorf("bob, by hash: %+v", bob)
	}
	for _, wrong := range []string{
		"", " ", aliceToken[1:], aliceToken + " ", strings.ToUpper(aliceToken), "sha256:" + hex.EncodeToString(sum[:]),
		hex.EncodeToString(sum[:]), string(sum[:]), strings.Repeat("x", maxToken+1),
	} {
		refused(t, tokens, Credentials{Token: wrong}, ErrFailed)
	}
}

// The search must not end at a match: every entry is compared, and each one can be
// found wherever it stands.
func TestTokensFindCoversAllEntries(t *testing.T) {
	var rules []TokenRule
	for _, c := range "abcdefgh" {
		rules = append(rules, TokenRule{User: string(c), Token: strings.Repeat(string(c), 20)})
	}
	tokens := newTokens(t, rules...)
	for i, r := range rules {
		if got := tokens.find(sha256.Sum256([]byte(r.Token))); got != i {
			t.Errorf("find(entry %d) = %d", i, got)
		}
	}
	if got := tokens.find(sha256.Sum256(nil)); got != -1 {
		t.Errorf("find(unknown) = %d", got)
	}
	// With the same digest twice, which NewTokens refuses, a search without early
	// end answers the last one.
	twice := &Tokens{entries: append(slices.Clone(tokens.entries), tokens.entries[0])}
	if got := twice.find(tokens.entries[0].digest); got != len(rules) {
		t.Errorf("find ended at entry %d before the last match", got)
	}
}

func TestTokensKeepNoSecret(t *testing.T) {
	tokens := newTokens(t, TokenRule{User: "alice", Token: aliceToken})
	p := admitted(t, tokens, Credentials{Token: aliceToken})
	sum := sha256.Sum256([]byte(aliceToken))
	if strings.Contains(p.Rule, hex.EncodeToString(sum[:])[:16]) || strings.Contains(p.Rule, "alice") {
		t.Errorf("fingerprint %q is made of the credential", p.Rule)
	}
}

func TestCheckToken(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for _, tt := range []struct{ user, token, warning, err string }{
		{"alice", aliceToken, "", ""},
		{"alice", strings.Repeat("x", 16), "", ""},
		{"alice", "sha256:" + hash, "", ""},
		{"alice", "sha256:" + strings.ToUpper(hash), "", ""},
		{"alice", "s3cret", "shorter than 16", ""},
		{"alice", "", "", `token for user "alice" is empty`},
		{"alice", "sha256:" + hash[2:], "", "wants 64 hex digits"},
		{"alice", "sha256:", "", "wants 64 hex digits"},
		{"alice", "sha256:" + strings.Repeat("zz", 32), "", "wants 64 hex digits"},
		{"", aliceToken, "", "not a user name"},
		{"a\nb", aliceToken, "", "not a user name"},
		{strings.Repeat("u", 257), aliceToken, "", "not a user name"},
		{"alice", strings.Repeat("x", maxToken+1), "", "longer than"},
	} {
		warning, err := CheckToken(tt.user, tt.token)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.20q %.20q: error %v, want %q", tt.user, tt.token, err, tt.err)
		}
		if (warning == "") != (tt.warning == "") || !strings.Contains(warning, tt.warning) {
			t.Errorf("%.20q %.20q: warning %q, want %q", tt.user, tt.token, warning, tt.warning)
		}
		if tt.token != "" && strings.Contains(warning, tt.token) {
			t.Errorf("warning %q holds the token", warning)
		}
	}
}

func TestNewTokensRefuses(t *testing.T) {
	for name, rules := range map[string][]TokenRule{
		"no entry":        nil,
		"empty":           {{User: "a", Token: ""}},
		"bad profile":     {{User: "a", Token: aliceToken, Grant: Grant{Profiles: []string{"../x"}}}},
		"one for two":     {{User: "a", Token: aliceToken}, {User: "b", Token: aliceToken}},
		"one twice":       {{User: "a", Token: aliceToken}, {User: "a", Token: aliceToken}},
		"second is empty": {{User: "a", Token: aliceToken}, {User: "b"}},
	} {
		if _, _, err := NewTokens(rules...); err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), aliceToken) {
			t.Errorf("%s: the error holds the token: %v", name, err)
		}
	}
	_, warnings, err := NewTokens(TokenRule{User: "a", Token: "short"}, TokenRule{User: "b", Token: "tiny"})
	if err != nil || len(warnings) != 2 {
		t.Errorf("short tokens: %q, %v, want two warnings", warnings, err)
	}
}

// R5: a connection outlives a change of grants, and ends with its token.
func TestTokensReview(t *testing.T) {
	before := newTokens(t, TokenRule{User: "alice", Token: aliceToken}, TokenRule{User: "bob", Token: bobToken})
	alice := admitted(t, before, Credentials{Token: aliceToken})
	bob := admitted(t, before, Credentials{Token: bobToken})

	after := newTokens(t, TokenRule{User: "alice", Token: aliceToken, Grant: Grant{Profiles: []string{"work"}, Admin: true}})
	now, ok := Review(after, alice)
	if !ok || !now.Admin || !slices.Equal(now.Profiles, []string{"work"}) || now.Rule != alice.Rule {
		t.Errorf("alice: %+v, %v", now, ok)
	}
	if _, ok := Review(after, bob); ok {
		t.Error("bob's rule is gone and he is still known")
	}
	renamed := newTokens(t, TokenRule{User: "alicia", Token: aliceToken})
	if _, ok := Review(renamed, alice); ok {
		t.Error("a token given to another user still admits the old one")
	}
}

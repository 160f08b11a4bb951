package auth

import (
	"context"
	"errors"
	"slices"
	"testing"
)

func TestChainOrder(t *testing.T) {
	a, b := &Principal{User: "a"}, &Principal{User: "b"}
	other := errors.New("other")
	no := fixed{err: ErrFailed}
	for _, tt := range []struct {
		name  string
		rules []Authenticator
		user  string
		err   error
	}{
		{"none", nil, "", ErrFailed},
		{"first", []Authenticator{fixed{p: a}, fixed{p: b}}, "a", nil},
		{"second", []Authenticator{no, fixed{p: b}}, "b", nil},
		{"all refuse", []Authenticator{no, no}, "", ErrFailed},
		{"recognised but refused", []Authenticator{fixed{err: ErrProfile}, fixed{p: b}}, "", ErrProfile},
		{"unavailable, then admitted", []Authenticator{fixed{err: ErrUnavailable}, fixed{p: b}}, "b", nil},
		{"unavailable", []Authenticator{fixed{err: ErrUnavailable}, no}, "", ErrUnavailable},
		{"something else", []Authenticator{fixed{err: other}, fixed{p: b}}, "", other},
		{"single", []Authenticator{fixed{p: b}}, "b", nil},
	} {
		p, err := NewChain(tt.rules...).Authenticate(context.Background(), Credentials{})
		if !errors.Is(err, tt.err) || (p == nil) != (tt.user == "") || p != nil && p.User != tt.user {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
}

func TestMountedAppliesCeilingAndSharing(t *testing.T) {
	rule := &Principal{User: "a", Profiles: []string{"a", "b"}}
	ceiling := []string{"a"}
	mount := Mounted(fixed{p: rule}, ceiling, true)
	ceiling[0] = "b"
	p := admitted(t, mount, Credentials{})
	if !p.Shared || !slices.Equal(p.Ceiling, []string{"a"}) {
		t.Errorf("principal %+v", p)
	}
	if rule.Shared || rule.Ceiling != nil {
		t.Error("the rule's principal was changed")
	}
	for _, none := range [][]string{nil, {}} {
		if p := admitted(t, Mounted(fixed{p: rule}, none, false), Credentials{}); p.Shared || p.Ceiling != nil {
			t.Errorf("plain mount: %+v", p)
		}
	}
	refused(t, Mounted(fixed{err: ErrFailed}, nil, false), Credentials{Profile: "a"}, ErrFailed)
}

// AUT-07: the handshake profile {own, foreign, none, unknown}, AUT-02: or crafted.
func TestMountedChecksHandshakeProfile(t *testing.T) {
	user := fixed{p: &Principal{User: "u", Profiles: []string{"own", "capped"}}}
	mount := Mounted(user, []string{"own", "foreign"}, false)
	for _, profile := range []string{"own", "", "  ", " own "} {
		admitted(t, mount, Credentials{Profile: profile})
	}
	for _, profile := range append(hostileProfiles, "foreign", "unknown", "capped", "default") {
		if profile == " " {
			continue // blank: none was asked for
		}
		refused(t, mount, Credentials{Profile: profile}, ErrProfile)
	}
	admin := Mounted(fixed{p: &Principal{Admin: true}}, nil, false)
	admitted(t, admin, Credentials{Profile: "anything"})
	for _, profile := range []string{"..", "a/b", "MyConfig", "*"} {
		refused(t, admin, Credentials{Profile: profile}, ErrProfile)
	}
}

func TestReviewThroughLayers(t *testing.T) {
	tokens := newTokens(t, TokenRule{User: "alice", Token: aliceToken})
	a := Delayed(Mounted(NewChain(fixed{err: ErrFailed}, tokens), nil, false), 0, nil)
	p := admitted(t, a, Credentials{Token: aliceToken})
	after := Delayed(Mounted(NewChain(tokens, fixed{err: ErrFailed}), []string{"x"}, true), 0, nil)
	q, ok := Review(after, p)
	if !ok || !q.Shared || !slices.Equal(q.Ceiling, []string{"x"}) {
		t.Errorf("Review: %+v, %v", q, ok)
	}
	if _, ok := Review(fixed{p: p}, p); ok {
		t.Error("an authenticator that cannot review knows the rule")
	}
}

// The fingerprint names the rule, not the mount: with the rule on several mounts
// nobody may slip from a narrow one to a wide one.
func TestReviewAny(t *testing.T) {
	tokens := newTokens(t, TokenRule{User: "alice", Token: aliceToken, Grant: Grant{Profiles: []string{AllProfiles}}})
	other := newTokens(t, TokenRule{User: "bob", Token: bobToken})
	wide, narrow, shared := Mounted(tokens, nil, false), Mounted(tokens, []string{"a"}, false), Mounted(tokens, []string{"a"}, true)
	p := admitted(t, narrow, Credentials{Token: aliceToken})

	if q, ok := ReviewAny([]Authenticator{wide, narrow, shared}, p); !ok || !slices.Equal(q.Ceiling, []string{"a"}) || q.Shared {
		t.Errorf("own mount still there: %+v, %v", q, ok)
	}
	if q, ok := ReviewAny([]Authenticator{other, Mounted(tokens, []string{"b"}, false)}, p); !ok || !slices.Equal(q.Ceiling, []string{"b"}) {
		t.Errorf("ceiling of the only mount changed: %+v, %v", q, ok)
	}
	if q, ok := ReviewAny([]Authenticator{wide, shared}, p); ok {
		t.Errorf("unclear mount: %+v, want a new sign-in", q)
	}
	if _, ok := ReviewAny([]Authenticator{other}, p); ok {
		t.Error("rule gone from all mounts")
	}
	if _, ok := ReviewAny(nil, p); ok {
		t.Error("no mounts")
	}
}

func TestOff(t *testing.T) {
	p := admitted(t, Off{}, Credentials{})
	if p.User != Anonymous || !p.Admin {
		t.Errorf("principal %+v", p)
	}
	if _, ok := Review(Off{}, p); !ok {
		t.Error("off does not know its own principal")
	}
	if _, ok := Review(Off{}, &Principal{User: Anonymous, Rule: "x"}); ok {
		t.Error("off knows a principal of another rule")
	}
}

package auth

import (
	"slices"
	"strings"
	"testing"
)

func newIdentity(t *testing.T, placeholder string, grant Grant) *Identity {
	t.Helper()
	i, err := NewIdentity(placeholder, grant)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestIdentity(t *testing.T) {
	i := newIdentity(t, "", Grant{})
	p := admitted(t, i, Credentials{Token: "ignored", Identity: map[string]string{DefaultPlaceholder: "alice"}})
	if p.User != "alice" || p.Admin || !slices.Equal(p.Profiles, []string{DefaultProfile}) {
		t.Errorf("principal %+v", p)
	}
	for name, identity := range map[string]map[string]string{
		"nobody":         nil,
		"empty":          {DefaultPlaceholder: ""},
		"other":          {"{http.request.header.Remote-User}": "alice"},
		"control":        {DefaultPlaceholder: "al\x00ice"},
		"invalid UTF-8":  {DefaultPlaceholder: "al\xff"},
		"very long name": {DefaultPlaceholder: strings.Repeat("a", maxUser+1)},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, i, Credentials{Token: "alice", Identity: identity}, ErrFailed)
		})
	}
}

func TestIdentityProfilesFromPlaceholders(t *testing.T) {
	const groups = "{http.request.header.Remote-Groups}"
	i := newIdentity(t, "{http.request.header.Remote-User}", Grant{Profiles: []string{"base", groups}})
	if got := Placeholders(i); !slices.Equal(got, []string{"{http.request.header.Remote-User}", groups}) {
		t.Errorf("Placeholders = %q", got)
	}
	values := map[string]string{"{http.request.header.Remote-User}": "bob", groups: "work, home  ../etc,*,Admins,,x"}
	p := admitted(t, i, Credentials{Identity: values})
	if want := []string{"base", "work", "home", "x"}; !slices.Equal(p.Profiles, want) {
		t.Errorf("profiles %q, want %q: names that are not valid and * grant nothing", p.Profiles, want)
	}
	values[groups] = "changed"
	q, ok := Review(newIdentity(t, "{http.request.header.Remote-User}", Grant{Profiles: []string{groups}, Admin: true}), p)
	if !ok || !q.Admin || !slices.Equal(q.Profiles, []string{"work", "home", "x"}) {
		t.Errorf("Review: %+v, %v", q, ok)
	}
	if _, ok := Review(newIdentity(t, "", Grant{}), p); ok {
		t.Error("another placeholder is the same rule")
	}
}

func TestNewIdentityRefuses(t *testing.T) {
	for _, placeholder := range []string{"alice", "}{", "{http.auth.user.id"} {
		if _, err := NewIdentity(placeholder, Grant{}); err == nil {
			t.Errorf("%q accepted", placeholder)
		}
	}
	if _, err := NewIdentity("", Grant{Profiles: []string{"{x}", "../y"}}); err == nil {
		t.Error("bad profile accepted")
	}
}

func TestPlaceholdersThroughLayers(t *testing.T) {
	tokens := newTokens(t, TokenRule{User: "alice", Token: aliceToken})
	a := Delayed(Mounted(NewChain(tokens, newIdentity(t, "", Grant{}), newIdentity(t, "{x}", Grant{})), nil, false), 0, nil)
	if got := Placeholders(a); !slices.Equal(got, []string{DefaultPlaceholder, "{x}"}) {
		t.Errorf("Placeholders = %q", got)
	}
	if got := Placeholders(tokens); got != nil {
		t.Errorf("Placeholders of tokens = %q", got)
	}
}

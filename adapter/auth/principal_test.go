package auth

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// hostileProfiles are names that must never reach a path (AUT-02).
var hostileProfiles = []string{
	"../../etc", "/tmp/x", "..", ".", "a/b", `a\b`, "%2e%2e", "C:", strings.Repeat("a", 300), "a\x00b", "-a", "_a",
	"MyConfig", "ä", "a b", "*", " ", "a\n",
}

func TestValidProfile(t *testing.T) {
	for _, name := range []string{"default", "a", "0", "work-2", "a_b", strings.Repeat("a", 64)} {
		if !ValidProfile(name) {
			t.Errorf("%q refused", name)
		}
	}
	for _, name := range append(hostileProfiles, "", strings.Repeat("a", 65)) {
		if ValidProfile(name) {
			t.Errorf("%q accepted", name)
		}
	}
}

func TestPrincipalMayUse(t *testing.T) {
	for _, tt := range []struct {
		name    string
		p       Principal
		profile string
		want    bool
	}{
		{"own", Principal{Profiles: []string{"a", "b"}}, "b", true},
		{"foreign", Principal{Profiles: []string{"a"}}, "b", false},
		{"none", Principal{}, "default", false},
		{"all", Principal{Profiles: []string{AllProfiles}}, "b", true},
		{"all is not a name", Principal{Profiles: []string{AllProfiles}}, AllProfiles, false},
		{"admin", Principal{Admin: true}, "b", true},
		{"admin, hostile name", Principal{Admin: true}, "../b", false},
		{"admin under a ceiling", Principal{Admin: true, Ceiling: []string{"a"}}, "b", false},
		{"all under a ceiling", Principal{Profiles: []string{AllProfiles}, Ceiling: []string{"a"}}, "b", false},
		{"own under a ceiling", Principal{Profiles: []string{"a", "b"}, Ceiling: []string{"a"}}, "a", true},
		{"ceiling gives nothing", Principal{Ceiling: []string{"a"}}, "a", false},
		{"empty ceiling", Principal{Admin: true, Ceiling: []string{}}, "a", false},
	} {
		if got := tt.p.MayUse(tt.profile); got != tt.want {
			t.Errorf("%s: MayUse(%q) = %v, want %v", tt.name, tt.profile, got, tt.want)
		}
	}
}

func TestPrincipalVisible(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    Principal
		want []string
	}{
		{"own", Principal{Profiles: []string{"a", "b"}}, []string{"a", "b"}},
		{"own, not valid", Principal{Profiles: []string{"a", "../b"}}, []string{"a"}},
		{"none", Principal{}, []string{}},
		{"own under a ceiling", Principal{Profiles: []string{"a", "b"}, Ceiling: []string{"b", "c"}}, []string{"b"}},
		{"all", Principal{Profiles: []string{AllProfiles}}, nil},
		{"all under a ceiling", Principal{Profiles: []string{AllProfiles}, Ceiling: []string{"b"}}, []string{"b"}},
		{"admin", Principal{Admin: true}, nil},
		{"admin under a ceiling", Principal{Admin: true, Ceiling: []string{"b"}}, []string{"b"}},
		{"admin under an empty ceiling", Principal{Admin: true, Ceiling: []string{}}, []string{}},
	} {
		if got := tt.p.Visible(); !slices.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("%s: %q, nil %v, want %q", tt.name, got, got == nil, tt.want)
		}
	}
}

// D-03, AUT-01: owner and profile of the stored session decide.
func TestPrincipalMayOpen(t *testing.T) {
	user := Principal{User: "u", Profiles: []string{"a"}}
	shared := Principal{User: "u", Profiles: []string{"a"}, Shared: true}
	admin := Principal{User: "root", Admin: true}
	for _, tt := range []struct {
		name           string
		p              Principal
		owner, profile string
		want           bool
	}{
		{"own", user, "u", "a", true},
		{"somebody else's", user, "v", "a", false},
		{"own of a profile that was taken away", user, "u", "b", false},
		{"shared", shared, "v", "a", true},
		{"shared, foreign profile", shared, "v", "b", false},
		{"admin", admin, "v", "b", true},
	} {
		if got := tt.p.MayOpen(tt.owner, tt.profile); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPrincipalExpired(t *testing.T) {
	now := time.Unix(1000, 0)
	if (&Principal{}).Expired(now) {
		t.Error("a principal without expiry has expired")
	}
	if (&Principal{Expires: now.Add(1)}).Expired(now) {
		t.Error("expired too early")
	}
	if !(&Principal{Expires: now}).Expired(now) {
		t.Error("not expired at its time")
	}
}

func TestPrincipalSame(t *testing.T) {
	p := &Principal{User: "u", Rule: "r", Profiles: []string{"a"}}
	if !p.Same(&Principal{User: "u", Rule: "r", Admin: true}) {
		t.Error("grants are no part of the identity")
	}
	if p.Same(&Principal{User: "u", Rule: "s"}) || p.Same(&Principal{User: "v", Rule: "r"}) {
		t.Error("another rule or user is the same")
	}
}

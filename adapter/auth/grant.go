package auth

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DefaultProfile is granted by a rule that names no profiles.
const DefaultProfile = "default"

// maxUser is the longest user name, in bytes.
const maxUser = 256

// Grant is what a rule gives to the users it admits.
type Grant struct {
	// Profiles he may use; AllProfiles for every one. Empty: DefaultProfile.
	Profiles []string
	// Admin gives all profiles, all sessions and detailed health.
	Admin bool
}

// Validate checks the names of the profiles.
func (g Grant) Validate() error {
	for _, name := range g.Profiles {
		if name != AllProfiles && !ValidProfile(name) {
			return fmt.Errorf("%q is not a profile name: want lower-case letters, digits, _ and -, at most %d", name, maxProfile)
		}
	}
	return nil
}

func (g Grant) profiles() []string {
	if len(g.Profiles) == 0 {
		return []string{DefaultProfile}
	}
	return slices.Clone(g.Profiles)
}

// fingerprint identifies a rule by its parts. Parts are prefixed with their
// length so that no two lists of parts give the same input.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// validUser reports whether name can be a user name: what a rule takes from a
// token or from the web server goes into keys and log fields.
func validUser(name string) bool {
	return name != "" && len(name) <= maxUser && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

// splitProfiles splits a list written with commas or spaces and keeps the valid
// names. AllProfiles counts only where the operator writes it, not in data.
func splitProfiles(list string) []string {
	words := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	return slices.DeleteFunc(words, func(w string) bool { return !ValidProfile(w) })
}

func equalCeiling(a, b []string) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(name string) bool { return !slices.Contains(b, name) })
}

package chatrun

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// TitleLength is the longest provisional title, in characters a reader sees.
const TitleLength = 64

// PreviewLength is the longest list preview in UTF-16 units.
const PreviewLength = 63

var (
	sessionIDPattern = regexp.MustCompile(`^[A-Za-z0-9_\-.:]{1,128}$`)
	profilePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
)

// ValidSessionID reports whether id may name a session. Anything else is refused
// before it reaches a key, a path or a header.
func ValidSessionID(id string) bool { return sessionIDPattern.MatchString(id) }

// ValidProfile reports whether name can be a profile.
func ValidProfile(name string) bool { return profilePattern.MatchString(name) }

// Cut returns the longest prefix of s that has at most n UTF-16 units and does
// not split a character.
func Cut(s string, n int) string {
	units := 0
	for i, r := range s {
		width := 1
		if r > 0xFFFF {
			width = 2
		}
		if units+width > n {
			return s[:i]
		}
		units += width
	}
	return s
}

// Title makes a provisional title of a user message: one line, at most
// TitleLength characters, never split inside a character as readers see it.
func Title(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	graphemes := uniseg.NewGraphemes(line)
	end := 0
	for count := 0; count < TitleLength && graphemes.Next(); count++ {
		_, end = graphemes.Positions()
	}
	return strings.TrimSpace(line[:end])
}

// Preview makes the list preview of a user message.
func Preview(text string) string {
	return Cut(strings.Join(strings.Fields(text), " "), PreviewLength)
}

// ValidText returns s with every invalid byte sequence replaced, so that it can
// be sent in a text frame.
func ValidText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

package gateway

import (
	"regexp"
	"strings"
)

const warningSign = "\u26a0"

var providerFailure = regexp.MustCompile(`^(API call failed after \d+ retries|HTTP [1-5]\d\d:)`)

// LooksLikeProviderFailure reports whether an answer reads like the error text
// that gateways put in the place of an answer (T3). On its own it proves
// nothing: a good answer may begin the same way.
func LooksLikeProviderFailure(text string) bool {
	return strings.HasPrefix(text, warningSign) || providerFailure.MatchString(text)
}

// shape records what T3 asks about a turn.
type shape struct {
	deltas int
	only   string // the text while there was exactly one delta
	last   bool   // the last event that counts was a delta
	direct bool   // the delta came directly before output_text.done
	tools  bool
}

func (s *shape) delta(text string) {
	s.deltas++
	s.last = true
	s.only = ""
	if s.deltas == 1 {
		s.only = text
	}
}

func (s *shape) textDone() {
	s.direct = s.last
	s.last = false
}

func (s *shape) tool() {
	s.tools = true
	s.last = false
}

// masked reports whether a turn that the gateway calls completed has failed.
func (s *shape) masked(usage Usage) bool {
	return usage.IsZero() && !s.tools && s.deltas == 1 && s.direct && LooksLikeProviderFailure(s.only)
}

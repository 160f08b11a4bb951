package gateway

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxErrorText = 300
	maxRedact    = 8 << 10
	mask         = "***"
)

var redactions = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{4,}`), "$1 " + mask},
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.\-]*://)[^/\s@"']+@`), "$1" + mask + "@"},
	{regexp.MustCompile(`\b(?:(?:sk|pk|rk|gsk|hf|gh[opsu]|github_pat|xox[abprs]|glpat)[-_][A-Za-z0-9_\-]{6,}|AIza[A-Za-z0-9_\-]{10,}|AKIA[A-Z0-9]{10,})`), mask},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]*)?`), mask},
	{regexp.MustCompile(`(?i)((?:api[_\- ]?key|access[_\- ]?key|token|secret|password|passwd|authorization)(?: provided)?["']?\s*[:=]\s*["']?)[^\s"',;&)]+`), "$1" + mask},
	{regexp.MustCompile(`(?i)([?&](?:key|sig|signature|auth)=)[^\s&"']+`), "$1" + mask},
	{regexp.MustCompile(`(?:/(?:home|Users)/|/root\b|\b[A-Za-z]:[\\/]Users[\\/])[^\s"'<>|,;:)]*`), "[path]"},
	{regexp.MustCompile(`(?i)\b(?:localhost|[a-z0-9\-]+(?:\.[a-z0-9\-]+)*\.(?:local|internal|lan|svc|localdomain))(?::\d{1,5})?\b`), "[host]"},
	{regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b`), "[host]"},
	{regexp.MustCompile(`\[[0-9A-Fa-f:.%]*:[0-9A-Fa-f:.%]*\](?::\d{1,5})?`), "[host]"},
	{regexp.MustCompile(`\b[A-Za-z][A-Za-z0-9\-]*(?:\.[A-Za-z0-9\-]+)*:\d{4,5}\b`), "[host]"},
	{regexp.MustCompile(`\b[A-Za-z0-9_\-]{40,}\b`), mask},
}

// Redact makes one bounded line for users from a foreign text: keys, bearer
// values, credentials in URLs, home paths, internal addresses and the given
// secrets are masked; control characters and line breaks become spaces; the
// result is valid UTF-8 of at most 300 characters (GW-2, GW-48, AUT-08).
func Redact(text string, secrets ...string) string {
	if len(text) > maxRedact {
		text = text[:maxRedact]
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	for _, secret := range secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, mask)
		}
	}
	text = oneLine(text)
	for _, r := range redactions {
		text = r.pattern.ReplaceAllString(text, r.with)
	}
	return clip(text, maxErrorText)
}

// oneLine collapses white space and control characters to single spaces.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}), " ")
}

// clip cuts text to at most limit characters, the last one then an ellipsis.
func clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		n++
		if n == limit {
			return strings.TrimRight(text[:i], " ") + "\u2026"
		}
	}
	return text
}

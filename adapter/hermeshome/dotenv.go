package hermeshome

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// GatewayKeyName is the setting that holds a gateway's API key.
const GatewayKeyName = "API_SERVER_KEY"

const (
	dotenvName = ".env"
	maxDotenv  = 1 << 20
)

// GatewayKey returns the API key in the profile's .env, read afresh at every
// call; "" without error if the file or the setting is absent.
func (h Home) GatewayKey(profile string) (string, error) {
	return h.Setting(profile, GatewayKeyName)
}

// Setting returns one setting of the profile's .env, "" without error if the
// file or the setting is absent. The last assignment wins.
func (h Home) Setting(profile, name string) (string, error) {
	f, err := h.openFile(profile, dotenvName)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open %s of profile %q: %w", dotenvName, profile, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDotenv+1))
	if err != nil {
		return "", fmt.Errorf("read %s of profile %q: %w", dotenvName, profile, err)
	}
	if len(text) > maxDotenv {
		return "", fmt.Errorf("%s of profile %q is over %d bytes", dotenvName, profile, maxDotenv)
	}
	return Lookup(string(text), name), nil
}

// Lookup returns the last value that dotenv text assigns to name, "" if none.
// It knows "export ", single and double quotes, comments, CRLF and a byte order
// mark; it expands nothing and quoted values do not span lines.
func Lookup(text, name string) string {
	value := ""
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		key, raw, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		key = strings.TrimSpace(key)
		if rest, exported := strings.CutPrefix(key, "export"); exported && rest != strings.TrimLeft(rest, " \t") {
			key = strings.TrimSpace(rest)
		}
		if key == name {
			value = unquote(strings.TrimSpace(raw))
		}
	}
	return value
}

func unquote(raw string) string {
	if raw == "" {
		return ""
	}
	switch raw[0] {
	case '\'':
		if end := strings.IndexByte(raw[1:], '\''); end >= 0 {
			return raw[1 : 1+end]
		}
	case '"':
		if value, ok := doubleQuoted(raw[1:]); ok {
			return value
		}
	}
	return strings.TrimSpace(cutComment(raw))
}

// cutComment drops " # …": a "#" inside a word belongs to the value.
func cutComment(raw string) string {
	for i := range len(raw) {
		if raw[i] == '#' && (i == 0 || raw[i-1] == ' ' || raw[i-1] == '\t') {
			return raw[:i]
		}
	}
	return raw
}

func doubleQuoted(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), true
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteString(unescape(s[i]))
		default:
			b.WriteByte(s[i])
		}
	}
	return "", false
}

func unescape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case '"', '\\', '$':
		return string(c)
	default:
		return `\` + string(c)
	}
}

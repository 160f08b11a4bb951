package chatrun

import (
	"strconv"
	"unicode/utf8"
)

// payload builds a flat JSON object without reflection. Deltas pass here in the
// thousands per second, and the object is the only allocation.
type payload struct{ b []byte }

// newPayload starts the payload of an event (rules E1 and E2 of section 3.1).
func newPayload(event, sid string, size int) *payload {
	p := &payload{b: make([]byte, 0, size+len(event)+len(sid)+64)}
	p.b = append(p.b, `{"event":`...)
	p.b = appendString(p.b, event)
	return p.text("session_id", sid)
}

func (p *payload) key(name string) {
	p.b = append(p.b, ',', '"')
	p.b = append(p.b, name...)
	p.b = append(p.b, '"', ':')
}

func (p *payload) text(name, value string) *payload {
	p.key(name)
	p.b = appendString(p.b, value)
	return p
}

// optional leaves out an empty text (rule E3).
func (p *payload) optional(name, value string) *payload {
	if value == "" {
		return p
	}
	return p.text(name, value)
}

func (p *payload) number(name string, value int64) *payload {
	p.key(name)
	p.b = strconv.AppendInt(p.b, value, 10)
	return p
}

func (p *payload) seconds(name string, value float64) *payload {
	p.key(name)
	p.b = strconv.AppendFloat(p.b, value, 'f', 2, 64)
	return p
}

func (p *payload) flag(name string, value bool) *payload {
	p.key(name)
	p.b = strconv.AppendBool(p.b, value)
	return p
}

func (p *payload) raw(name string, value []byte) *payload {
	p.key(name)
	p.b = append(p.b, value...)
	return p
}

func (p *payload) done() []byte { return append(p.b, '}') }

// WithNumber returns a copy of a payload with one more number: those known only
// when the event is committed are added by the reader.
func WithNumber(data []byte, name string, value int64) []byte {
	p := &payload{b: make([]byte, 0, len(data)+len(name)+16)}
	p.b = append(p.b, data[:len(data)-1]...)
	return p.number(name, value).done()
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Text is sent as it is, not escaped for
// HTML; invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				i++
				start = i
				continue
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}

package gateway

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The scanner walks JSON in place: fields are found as raw slices, and only the
// text that leaves the package is copied. It checks structure, not every
// scalar; a value of an unexpected type counts as absent.

// object iterates over the members of a JSON object.
type object struct {
	b    []byte
	i    int
	ok   bool // still well formed
	some bool // a member was read, so that the next one needs a comma
}

func openObject(raw []byte) object {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return object{}
	}
	return object{b: raw, i: i + 1, ok: true}
}

// next returns the next member; false at the end or at an error, which done tells apart.
func (o *object) next() (key, value []byte, more bool) {
	if !o.ok {
		return nil, nil, false
	}
	o.i = skipSpace(o.b, o.i)
	if o.some && o.i < len(o.b) && o.b[o.i] != '}' {
		if o.b[o.i] != ',' {
			return nil, nil, o.fail()
		}
		o.i = skipSpace(o.b, o.i+1)
	}
	o.some = true
	if o.i >= len(o.b) || o.b[o.i] != '"' {
		return nil, nil, false
	}
	end, ok := skipString(o.b, o.i)
	if !ok {
		return nil, nil, o.fail()
	}
	key = o.b[o.i+1 : end-1]
	o.i = skipSpace(o.b, end)
	if o.i >= len(o.b) || o.b[o.i] != ':' {
		return nil, nil, o.fail()
	}
	start := skipSpace(o.b, o.i+1)
	end, ok = skipValue(o.b, start)
	if !ok {
		return nil, nil, o.fail()
	}
	o.i = end
	return key, o.b[start:end], true
}

func (o *object) fail() bool {
	o.ok = false
	return false
}

// done reports whether the object was walked to its closing brace and nothing
// but space follows.
func (o *object) done() bool {
	return o.ok && o.i < len(o.b) && o.b[o.i] == '}' && skipSpace(o.b, o.i+1) == len(o.b)
}

// array iterates over the elements of a JSON array.
type array struct {
	b []byte
	i int
}

func openArray(raw []byte) array {
	if len(raw) == 0 || raw[0] != '[' {
		return array{}
	}
	return array{b: raw, i: 1}
}

func (a *array) next() ([]byte, bool) {
	a.i = skipSpace(a.b, a.i)
	if a.i < len(a.b) && a.b[a.i] == ',' {
		a.i = skipSpace(a.b, a.i+1)
	}
	if a.i >= len(a.b) || a.b[a.i] == ']' {
		return nil, false
	}
	start := a.i
	end, ok := skipValue(a.b, start)
	if !ok {
		a.i = len(a.b)
		return nil, false
	}
	a.i = end
	return a.b[start:end], true
}

// member returns the value of one key of an object, nil if it has none.
func member(raw []byte, name string) []byte {
	o := openObject(raw)
	for {
		key, value, more := o.next()
		if !more {
			return nil
		}
		if string(key) == name {
			return value
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the offset behind the string that begins at b[i].
func skipString(b []byte, i int) (int, bool) {
	start := i + 1
	for i = start; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return len(b), false
		}
		i += quote
		slashes := 0
		for k := i - 1; k >= start && b[k] == '\\'; k-- {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i, true
		}
	}
}

// skipValue returns the offset behind the value that begins at b[i].
func skipValue(b []byte, i int) (int, bool) {
	if i >= len(b) {
		return i, false
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	start := i
	for i < len(b) && !isDelimiter(b[i]) {
		i++
	}
	return i, i > start
}

func isDelimiter(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ':' || c == '"'
}

func skipNested(b []byte, i int) (int, bool) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, ok := skipString(b, i)
			if !ok {
				return end, false
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1, true
			}
		}
		i++
	}
	return i, false
}

// rawString returns a JSON string's inside without decoding; for keywords.
func rawString(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// decoder turns JSON strings into Go strings with one allocation each.
type decoder struct {
	scratch []byte
}

// text decodes a JSON string, always to valid UTF-8; false for any other value.
func (d *decoder) text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	inside := raw[1 : len(raw)-1]
	slash := bytes.IndexByte(inside, '\\')
	if slash < 0 {
		return validString(inside), true
	}
	out := append(d.scratch[:0], inside[:slash]...)
	for i := slash; i < len(inside); {
		if inside[i] == '\\' && i+1 < len(inside) {
			out, i = appendEscape(out, inside, i)
			continue
		}
		out = append(out, inside[i])
		i++
	}
	d.scratch = out
	if cap(out) > sseKeepBuffer {
		d.scratch = nil
	}
	return validString(out), true
}

func validString(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}

// appendEscape decodes the escape at s[i] and returns the offset behind it.
func appendEscape(out, s []byte, i int) ([]byte, int) {
	switch c := s[i+1]; c {
	case 'n':
		return append(out, '\n'), i + 2
	case 't':
		return append(out, '\t'), i + 2
	case 'r':
		return append(out, '\r'), i + 2
	case 'b':
		return append(out, '\b'), i + 2
	case 'f':
		return append(out, '\f'), i + 2
	case 'u':
		return appendUnicode(out, s, i)
	default:
		return append(out, c), i + 2
	}
}

func appendUnicode(out, s []byte, i int) ([]byte, int) {
	r, ok := hex4(s, i+2)
	if !ok {
		return utf8.AppendRune(out, utf8.RuneError), i + 2
	}
	i += 6
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), i
	}
	if i+6 <= len(s) && s[i] == '\\' && s[i+1] == 'u' {
		if low, ok := hex4(s, i+2); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return utf8.AppendRune(out, pair), i + 6
			}
		}
	}
	return utf8.AppendRune(out, utf8.RuneError), i
}

func hex4(s []byte, i int) (rune, bool) {
	if i+4 > len(s) {
		return 0, false
	}
	var r rune
	for _, c := range s[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// count reads a non-negative number, 0 for anything else.
func count(raw []byte) int64 {
	const limit = 1 << 52
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int64(min(f, limit))
}

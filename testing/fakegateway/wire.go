package fakegateway

import (
	"fmt"
	"strconv"
	"unicode/utf16"
)

// object is a JSON object with its keys in wire order: key, value, key, value …
type object []any

// list is a JSON array.
type list []any

// rawJSON is JSON text put out as it is.
type rawJSON string

// appendJSON writes JSON the way the gateway does: one space after ":" and ",",
// every non-ASCII character as \u escapes.
func appendJSON(b []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return strconv.AppendFloat(b, v, 'f', -1, 64)
	case string:
		return appendString(b, v)
	case rawJSON:
		return append(b, v...)
	case list:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for i := 0; i+1 < len(v); i += 2 {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendString(b, v[i].(string))
			b = append(b, ": "...)
			b = appendJSON(b, v[i+1])
		}
		return append(b, '}')
	default:
		panic(fmt.Sprintf("fakegateway: no JSON form for %T", value))
	}
}

func appendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	escape := func(b []byte, u uint16) []byte {
		return append(b, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r >= 0x20 && r < 0x7f:
			b = append(b, byte(r))
		case r < 0x10000:
			b = escape(b, uint16(r))
		default:
			high, low := utf16.EncodeRune(r)
			b = escape(escape(b, uint16(high)), uint16(low))
		}
	}
	return append(b, '"')
}

func jsonText(value any) string { return string(appendJSON(nil, value)) }

// errorBody is error family E4.
func errorBody(message, kind string, code any) object {
	return object{"error", object{"message", message, "type", kind, "param", nil, "code", code}}
}

package chatrun

import (
	"bytes"
	"encoding/json"
	"strings"
)

const (
	previewLength       = 160
	scalarPreviewLength = 120
)

// previewKeys are looked at first, in this order (section 4.3).
var previewKeys = []string{"cmd", "command", "code", "query", "path", "url", "prompt"}

// ToolPreview makes the preview of a tool call from its arguments text (section
// 4.3, CR-34); "" means none.
func ToolPreview(arguments string) string {
	if arguments == "" {
		return ""
	}
	raw := []byte(arguments)
	if !json.Valid(raw) {
		return collapse(arguments)
	}
	raw = bytes.TrimSpace(raw)
	if raw[0] != '{' && raw[0] != '[' {
		return Cut(arguments, scalarPreviewLength)
	}
	if raw[0] == '{' {
		if text := firstText(raw); text != "" {
			return text
		}
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return collapse(arguments)
	}
	return Cut(compact.String(), previewLength)
}

// firstText answers the first preview key that holds a text, else the first entry
// in the order written.
func firstText(raw []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	for _, key := range previewKeys {
		if text := asText(fields[key]); text != "" {
			return text
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return ""
	}
	for dec.More() {
		if _, err := dec.Token(); err != nil {
			return ""
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return ""
		}
		if text := asText(value); text != "" {
			return text
		}
	}
	return ""
}

func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return collapse(s)
}

func collapse(s string) string {
	return Cut(strings.Join(strings.Fields(s), " "), previewLength)
}

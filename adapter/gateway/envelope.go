package gateway

import "strings"

// envelope reads the response object of a terminal event or of a stored
// response: text, usage, and tool items not seen before.
func (m *mapper) envelope(response []byte) {
	m.envelopeHead(response)
	m.outcome.Usage = readUsage(member(response, "usage"))
	var text strings.Builder
	parts := 0
	items := openArray(member(response, "output"))
	for {
		raw, more := items.next()
		if !more {
			break
		}
		switch string(itemType(raw)) {
		case "message":
			parts += m.messageText(raw, &text)
		case "function_call":
			if call := m.call(raw); m.first(call.CallID, seenCall) {
				m.outcome.ExtraItems = append(m.outcome.ExtraItems, Item{Call: &call})
			}
		case "function_call_output":
			if output := m.output(raw); m.first(output.CallID, seenOutput) {
				m.outcome.ExtraItems = append(m.outcome.ExtraItems, Item{Output: &output})
			}
		}
	}
	m.outcome.Text = text.String()
	if parts == 0 {
		m.outcome.Text, _ = m.decode.text(member(response, "output_text"))
	}
}

// messageText appends the text parts of a message item and counts them.
func (m *mapper) messageText(raw []byte, text *strings.Builder) int {
	n := 0
	parts := openArray(member(raw, "content"))
	for {
		part, more := parts.next()
		if !more {
			return n
		}
		switch string(itemType(part)) {
		case "output_text", "text":
			if s, ok := m.decode.text(member(part, "text")); ok {
				text.WriteString(s)
				n++
			}
		}
	}
}

func itemType(raw []byte) []byte { return rawString(member(raw, "type")) }

func (m *mapper) callID(raw []byte) string {
	for _, key := range []string{"call_id", "id"} {
		if id, ok := m.decode.text(member(raw, key)); ok && id != "" {
			return id
		}
	}
	return ""
}

// call reads a function_call item (chat-run 4.1).
func (m *mapper) call(raw []byte) ToolCall {
	call := ToolCall{CallID: m.callID(raw), Arguments: "{}"}
	function := member(raw, "function")
	for _, value := range [][]byte{member(raw, "name"), member(function, "name")} {
		if name, ok := m.decode.text(value); ok {
			call.Name = name
			break
		}
	}
	for _, value := range [][]byte{member(raw, "arguments"), member(function, "arguments")} {
		if value != nil && string(value) != "null" {
			call.Arguments = m.textOrJSON(value)
			break
		}
	}
	return call
}

// output reads a function_call_output item.
func (m *mapper) output(raw []byte) ToolOutput {
	return ToolOutput{CallID: m.callID(raw), Output: m.plainText(member(raw, "output"))}
}

// plainText makes a tool result text: a string as it is, a list of content
// parts as their texts joined by LF (SSE-11), anything else as JSON text.
func (m *mapper) plainText(raw []byte) string {
	if raw == nil || string(raw) == "null" {
		return ""
	}
	if raw[0] != '[' {
		return m.textOrJSON(raw)
	}
	var text strings.Builder
	parts := openArray(raw)
	for n := 0; ; n++ {
		part, more := parts.next()
		if !more {
			return text.String()
		}
		s, ok := m.partText(part)
		if !ok {
			return m.textOrJSON(raw)
		}
		if n > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(s)
	}
}

func (m *mapper) partText(part []byte) (string, bool) {
	if s, ok := m.decode.text(part); ok {
		return s, true
	}
	switch string(itemType(part)) {
	case "input_text", "output_text", "text":
		return m.decode.text(member(part, "text"))
	case "input_image", "image_url", "image":
		return "[image]", true
	default:
		return "", false
	}
}

func (m *mapper) textOrJSON(raw []byte) string {
	if s, ok := m.decode.text(raw); ok {
		return s
	}
	return validString(raw)
}

func readUsage(raw []byte) Usage {
	number := func(names ...string) int64 {
		for _, name := range names {
			if n := count(member(raw, name)); n > 0 {
				return n
			}
		}
		return 0
	}
	return Usage{
		InputTokens:      number("input_tokens", "inputTokens"),
		OutputTokens:     number("output_tokens", "outputTokens"),
		TotalTokens:      number("total_tokens", "totalTokens"),
		CacheReadTokens:  number("cache_read_tokens", "cacheReadTokens"),
		CacheWriteTokens: number("cache_write_tokens", "cacheWriteTokens"),
		ReasoningTokens:  number("reasoning_tokens", "reasoningTokens"),
	}
}

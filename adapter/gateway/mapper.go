package gateway

const maxToolCalls = 10_000

// Which parts of a tool call were seen.
const (
	seenStart = 1 << iota
	seenCall
	seenOutput
)

// mapper turns the frames of one responses stream into handler calls and an
// outcome. It holds nothing that grows with the text of the turn.
type mapper struct {
	handler EventHandler
	redact  func(string) string
	outcome Outcome
	err     *Error // why the turn failed, once it is over
	over    bool
	shape   shape
	calls   map[string]uint8
	decode  decoder
}

func newMapper(handler EventHandler, redact func(string) string) *mapper {
	return &mapper{handler: handler, redact: redact}
}

// event is one decoded data object, as raw slices.
type event struct {
	kind                              []byte
	delta, text                       []byte
	item, outputItem, response, error []byte
	raw                               []byte
}

// readEvent finds the fields in one walk. The JSON "type" wins over the SSE
// event name, which wins over the JSON "event" (chat-run 4.1, SSE-06).
func readEvent(name, data []byte) (event, bool) {
	ev := event{raw: data}
	var jsonEvent []byte
	o := openObject(data)
	for {
		key, value, more := o.next()
		if !more {
			break
		}
		switch string(key) {
		case "type":
			ev.kind = rawString(value)
		case "event":
			jsonEvent = rawString(value)
		case "delta":
			ev.delta = value
		case "text":
			ev.text = value
		case "item":
			ev.item = value
		case "output_item":
			ev.outputItem = value
		case "response":
			ev.response = value
		case "error":
			ev.error = value
		}
	}
	if len(ev.kind) == 0 {
		ev.kind = name
	}
	if len(ev.kind) == 0 {
		ev.kind = jsonEvent
	}
	return ev, o.done()
}

// frame maps one frame; over tells when the turn has ended. What is not a
// complete JSON object is skipped, a cut-off last frame with it.
func (m *mapper) frame(f Frame) {
	if m.over {
		return
	}
	if f.Comment {
		m.handler.KeepAlive()
		return
	}
	ev, ok := readEvent(f.Event, f.Data)
	if !ok {
		return
	}
	switch string(ev.kind) {
	case "response.output_text.delta":
		m.textDelta(ev)
	case "response.created":
		m.created(ev.response)
	case "response.output_text.done":
		m.shape.textDone()
		m.handler.TextDone()
	case "response.output_item.added":
		m.itemAdded(ev.toolItem())
	case "response.output_item.done":
		m.itemDone(ev.toolItem())
	case "response.completed":
		m.completed(ev.response)
	case "response.failed":
		m.failed(ev.response, ev.error)
	case "error", "response.error":
		m.fail(ClassProviderFailed, m.failureText(ev.error, ev.raw))
	}
}

func (ev event) toolItem() []byte {
	switch {
	case ev.item != nil:
		return ev.item
	case ev.outputItem != nil:
		return ev.outputItem
	default:
		return ev.raw
	}
}

func (m *mapper) textDelta(ev event) {
	text, ok := m.decode.text(ev.delta)
	if !ok {
		text, _ = m.decode.text(ev.text)
	}
	if text == "" {
		return
	}
	m.shape.delta(text)
	m.outcome.Streamed = true
	m.handler.TextDelta(text)
}

func (m *mapper) created(response []byte) {
	m.envelopeHead(response)
	m.handler.Created(Created{ResponseID: m.outcome.ResponseID, Model: m.outcome.Model})
}

func (m *mapper) envelopeHead(response []byte) {
	if id, ok := m.decode.text(member(response, "id")); ok {
		m.outcome.ResponseID = id
	}
	if model, ok := m.decode.text(member(response, "model")); ok {
		m.outcome.Model = model
	}
}

// first notes a part of a call and reports whether it is new. Too many calls
// end the turn: nothing here may grow without a bound.
func (m *mapper) first(callID string, part uint8) bool {
	if callID == "" || m.calls[callID]&part != 0 {
		return false
	}
	if _, known := m.calls[callID]; !known && len(m.calls) >= maxToolCalls {
		m.fail(ClassTooLarge, "The turn made too many tool calls")
		return false
	}
	if m.calls == nil {
		m.calls = make(map[string]uint8)
	}
	m.calls[callID] |= part
	return true
}

func (m *mapper) itemAdded(raw []byte) {
	if string(itemType(raw)) != "function_call" {
		return
	}
	m.shape.tool()
	if call := m.call(raw); m.first(call.CallID, seenStart) {
		m.handler.ToolStarted(call)
	}
}

func (m *mapper) itemDone(raw []byte) {
	switch string(itemType(raw)) {
	case "function_call":
		m.shape.tool()
		if call := m.call(raw); m.first(call.CallID, seenCall) {
			m.handler.ToolCallDone(call)
		}
	case "function_call_output":
		m.shape.tool()
		if output := m.output(raw); m.first(output.CallID, seenOutput) {
			m.handler.ToolOutput(output)
		}
	}
}

func (m *mapper) completed(response []byte) {
	m.envelope(response)
	switch {
	case m.shape.masked(m.outcome.Usage):
		m.outcome.Masked = true
		m.fail(ClassMasked, "Model provider: "+m.redact(m.shape.only))
	case !m.outcome.Streamed && m.outcome.Text == "" && !m.shape.tools && len(m.outcome.ExtraItems) == 0:
		m.fail(ClassEmptyAnswer, "The agent finished with an empty answer; check the gateway's model and provider key")
	default:
		m.outcome.Kind = Completed
		m.over = true
	}
}

func (m *mapper) failed(response, topError []byte) {
	m.envelope(response)
	reason := member(response, "error")
	if reason == nil {
		reason = topError
	}
	m.fail(ClassProviderFailed, m.failureText(reason, nil))
}

// fail ends the turn without an answer; text is already redacted or ours.
func (m *mapper) fail(class Class, text string) {
	if m.over {
		return
	}
	m.outcome.Kind = Failed
	m.err = &Error{Class: class, Text: text, Sent: true}
	m.over = true
}

// failureText finds the message of an error value: an object's message, a
// string, or the message beside it.
func (m *mapper) failureText(reason, around []byte) string {
	for _, raw := range [][]byte{member(reason, "message"), reason, member(around, "message")} {
		if text, ok := m.decode.text(raw); ok {
			if text = m.redact(text); text != "" {
				return text
			}
		}
	}
	return "Agent run failed"
}

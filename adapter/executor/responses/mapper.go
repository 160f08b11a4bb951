package responses

import (
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
)

// mapper turns upstream events into engine events (chat-run 4.1).
type mapper struct {
	sink       engine.Sink
	observer   Observer
	sent       time.Time
	responseID string
	keep       bool // remember the text, to recover a lost stream
	text       strings.Builder
}

func (m *mapper) Created(c gateway.Created) {
	m.responseID = c.ResponseID
	if m.observer != nil {
		m.observer.FirstByte(time.Since(m.sent))
	}
	m.sink.Started(c.ResponseID, "in_progress")
}

func (m *mapper) TextDelta(text string) {
	if m.keep {
		m.text.WriteString(text)
	}
	m.sink.Text(text)
}

func (m *mapper) TextDone() {}

func (m *mapper) ToolStarted(c gateway.ToolCall) {
	m.sink.ToolStarted(engine.ToolStart{ID: c.CallID, Name: c.Name, Arguments: c.Arguments})
}

func (m *mapper) ToolCallDone(gateway.ToolCall) {}

func (m *mapper) ToolOutput(o gateway.ToolOutput) { m.sink.ToolCompleted(toolEnd(o)) }

func (m *mapper) KeepAlive() {}

func (m *mapper) Pause() { m.sink.Flush() }

// toolEnd reads a failure off the text: the wire has no flag for it (section 4.4).
func toolEnd(o gateway.ToolOutput) engine.ToolEnd {
	return engine.ToolEnd{ID: o.CallID, Output: o.Output, Error: strings.HasPrefix(o.Output, "Error")}
}

// completed records what only the final envelope held and makes the outcome.
func (m *mapper) completed(res gateway.Outcome) engine.Outcome {
	for _, it := range res.ExtraItems {
		switch {
		case it.Call != nil:
			m.sink.CallRecorded(engine.ToolStart{ID: it.Call.CallID, Name: it.Call.Name, Arguments: it.Call.Arguments})
		case it.Output != nil:
			m.sink.ResultRecorded(toolEnd(*it.Output))
		}
	}
	return engine.Outcome{Output: res.Text, Usage: usageOf(res.Usage), Model: res.Model, Stopped: true}
}

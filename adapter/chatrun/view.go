package chatrun

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Limits of the replay ring (D-14).
const (
	ringEvents = 200
	ringBytes  = 2 << 20
)

// RingEvent is an entry of the replay ring (section 6.3).
type RingEvent struct {
	Event string          `json:"event"`
	Data  json.RawMessage `json:"data"`
}

// View is the fold of the events of one run: what a client that watched it from
// the start shows beyond the sealed rows. The zero value is a run without events.
// A View is not safe for concurrent use.
type View struct {
	runID     string
	text      strings.Builder
	reasoning strings.Builder
	streamed  bool
	ring      []RingEvent
	ringSize  int
}

// Text returns the open assistant text: what was streamed since the last row.
func (v *View) Text() string { return v.text.String() }

// Reasoning returns the open reasoning text.
func (v *View) Reasoning() string { return v.reasoning.String() }

// RunID returns the wire id of the run, "" before it has started.
func (v *View) RunID() string { return v.runID }

// Ring returns the replay ring, never nil.
func (v *View) Ring() []RingEvent {
	if v.ring == nil {
		return []RingEvent{}
	}
	return v.ring
}

// Streamed reports whether any text has reached clients in this run.
func (v *View) Streamed() bool { return v.streamed }

// AddText appends streamed text.
func (v *View) AddText(delta string) {
	v.text.WriteString(delta)
	v.streamed = true
}

// AddReasoning appends streamed reasoning.
func (v *View) AddReasoning(delta string) { v.reasoning.WriteString(delta) }

// TakeText empties the open text and reasoning because they have become a row.
func (v *View) TakeText() (text, reasoning string) {
	text, reasoning = v.text.String(), v.reasoning.String()
	v.text.Reset()
	v.reasoning.Reset()
	return text, reasoning
}

// AddEvent folds any event but the text ones, of which Apply takes care.
func (v *View) AddEvent(name string, payload []byte) {
	switch name {
	case EventRunStarted:
		var p struct {
			RunID string `json:"run_id"`
		}
		if json.Unmarshal(payload, &p) == nil {
			v.runID = p.RunID
		}
	case EventToolStarted:
		v.TakeText()
	case EventToolCompleted, EventAbortStarted:
	default:
		return
	}
	v.ring = append(v.ring, RingEvent{Event: name, Data: payload})
	v.ringSize += len(payload)
	for len(v.ring) > 1 && (len(v.ring) > ringEvents || v.ringSize > ringBytes) {
		v.ringSize -= len(v.ring[0].Data)
		v.ring = v.ring[1:]
	}
}

// Apply folds a logged event. A payload that cannot be read is skipped: a newer
// node may have written it.
func (v *View) Apply(name string, payload []byte) {
	var p struct {
		Delta string `json:"delta"`
		Text  string `json:"text"`
	}
	switch name {
	case EventMessageDelta:
		if json.Unmarshal(payload, &p) == nil {
			v.AddText(p.Delta)
		}
	case EventReasoningDelta:
		if json.Unmarshal(payload, &p) == nil {
			v.AddReasoning(p.Text)
		}
	default:
		v.AddEvent(name, payload)
	}
}

// savedView is the head of a checkpoint. The texts stand behind it as they are:
// they grow with the run, and checkpoints are taken while it streams.
type savedView struct {
	RunID     string      `json:"run_id,omitempty"`
	Streamed  bool        `json:"streamed,omitempty"`
	Ring      []RingEvent `json:"ring,omitempty"`
	Text      int         `json:"text"`      // bytes
	Reasoning int         `json:"reasoning"` // bytes
}

// Encode returns the view as a checkpoint.
func (v *View) Encode() []byte {
	head := mustJSON(savedView{v.runID, v.streamed, v.ring, v.text.Len(), v.reasoning.Len()})
	out := make([]byte, 0, len(head)+1+v.text.Len()+v.reasoning.Len())
	out = append(append(out, head...), '\n')
	return append(append(out, v.text.String()...), v.reasoning.String()...)
}

// DecodeView reads a checkpoint; an empty one is a run without events.
func DecodeView(data []byte) (*View, error) {
	v := &View{}
	if len(data) == 0 {
		return v, nil
	}
	head, texts, _ := bytes.Cut(data, []byte{'\n'})
	var s savedView
	if err := json.Unmarshal(head, &s); err != nil {
		return v, fmt.Errorf("checkpoint: %w", err)
	}
	if s.Text < 0 || s.Reasoning < 0 || s.Text+s.Reasoning != len(texts) {
		return v, errors.New("checkpoint: its texts are cut")
	}
	v.runID, v.streamed, v.ring = s.RunID, s.Streamed, s.Ring
	v.text.Write(texts[:s.Text])
	v.reasoning.Write(texts[s.Text:])
	for _, e := range s.Ring {
		v.ringSize += len(e.Data)
	}
	return v, nil
}

package chatrun

import "encoding/json"

// The builders below return event payloads without the numbers known only when
// the event is committed: queue_length, queue_remaining and the queue itself.
// They emit the superset of the field names that both reference paths use.

// RunStarted builds run.started (section 3.3); queue_length is added later.
func RunStarted(sid, runID, status string) []byte {
	return newPayload(EventRunStarted, sid, 2*len(runID)+96).
		text("run_id", runID).text("response_id", runID).text("status", status).done()
}

// MessageDelta builds message.delta (section 3.4), without the cumulative output
// that nobody reads.
func MessageDelta(sid, runID, delta string) []byte {
	return newPayload(EventMessageDelta, sid, 2*len(runID)+len(delta)+48).
		optional("run_id", runID).optional("response_id", runID).text("delta", delta).done()
}

// ReasoningDelta builds reasoning.delta (section 3.5); clients read text, else
// delta.
func ReasoningDelta(sid, runID, text string) []byte {
	return newPayload(EventReasoningDelta, sid, len(runID)+len(text)+32).
		optional("run_id", runID).text("text", text).done()
}

// ToolStarted builds tool.started (section 3.8).
func ToolStarted(sid, runID, callID, name, arguments string) []byte {
	return newPayload(EventToolStarted, sid, 2*len(runID)+len(callID)+2*len(name)+len(arguments)+previewLength+96).
		optional("run_id", runID).optional("response_id", runID).
		text("tool_call_id", callID).text("tool", name).text("name", name).
		text("arguments", arguments).optional("preview", ToolPreview(arguments)).done()
}

// ToolCompleted builds tool.completed (section 3.9). seconds < 0 means unknown.
func ToolCompleted(sid, runID, callID, name, output string, seconds float64, failed bool) []byte {
	p := newPayload(EventToolCompleted, sid, 2*len(runID)+len(callID)+2*len(name)+len(output)+96).
		optional("run_id", runID).optional("response_id", runID).
		text("tool_call_id", callID).text("tool", name).text("name", name).text("output", output)
	if seconds >= 0 {
		p.seconds("duration", seconds)
	}
	if failed {
		p.flag("error", true)
	}
	return p.done()
}

// AgentEvent builds agent.event (section 13.4): a line of status.
func AgentEvent(sid, runID, kind, text string) []byte {
	return newPayload(EventAgentEvent, sid, 128+len(text)).
		optional("run_id", runID).text("kind", kind).text("text", text).done()
}

// Tokens are the three counters of usage.updated; Context 0 means unknown.
type Tokens struct{ Input, Output, Context int64 }

// UsageUpdated builds usage.updated (section 3.15).
func UsageUpdated(sid string, t Tokens) []byte {
	return newPayload(EventUsageUpdated, sid, 96).tokens(t).done()
}

func (p *payload) tokens(t Tokens) *payload {
	p.number("inputTokens", t.Input).number("outputTokens", t.Output)
	if t.Context > 0 {
		p.number("contextTokens", t.Context)
	}
	return p
}

// RunUsage is the usage of one run as upstreams report it.
type RunUsage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	TotalTokens  int64 `json:"total_tokens"`
}

// Ending is what both run.completed and run.failed carry.
type Ending struct {
	RunID  string
	Output string
	Usage  *RunUsage
	Tokens Tokens
	Error  string // run.failed only
}

// RunCompleted builds run.completed (section 3.11); queue_remaining is added later.
func RunCompleted(sid string, e Ending) []byte { return ending(EventRunCompleted, sid, e).done() }

// RunFailed builds run.failed (section 3.12) of a run that was accepted;
// queue_remaining is added later. The error is always a text (D-39).
func RunFailed(sid string, e Ending) []byte {
	return ending(EventRunFailed, sid, e).text("error", e.Error).done()
}

func ending(event, sid string, e Ending) *payload {
	p := newPayload(event, sid, 2*len(e.RunID)+len(e.Output)+len(e.Error)+192).
		optional("run_id", e.RunID).optional("response_id", e.RunID).text("output", e.Output)
	if e.Usage != nil {
		if raw, err := json.Marshal(e.Usage); err == nil {
			p.raw("usage", raw)
		}
	}
	return p.tokens(e.Tokens)
}

// RunRefused builds the run.failed that goes to one socket because nothing was
// accepted (sections 2.1.1 and 3.12).
func RunRefused(sid, queueID, cause string) []byte {
	p := &payload{b: []byte(`{"event":"` + EventRunFailed + `"`)}
	return p.optional("session_id", sid).optional("queue_id", queueID).text("error", cause).done()
}

// AbortStarted builds abort.started (section 3.16).
func AbortStarted(sid, runID string) []byte {
	if runID == "" {
		runID = UnknownRunID
	}
	return newPayload(EventAbortStarted, sid, 96).text("run_id", runID).number("graceMs", AbortGraceMS).done()
}

// AbortCompleted builds abort.completed of a run; queue_length is added later, and
// only if a queued run follows (CR-67).
func AbortCompleted(sid, runID string, synced bool) []byte {
	if runID == "" {
		runID = UnknownRunID
	}
	return newPayload(EventAbortCompleted, sid, 96).text("run_id", runID).flag("synced", synced).done()
}

// AbortIgnored builds the answer to an abort with nothing to abort (CR-64).
func AbortIgnored(sid string) []byte {
	return newPayload(EventAbortCompleted, sid, 64).flag("synced", false).flag("ignored", true).done()
}

// TitleUpdated builds session.title.updated (section 13.4).
func TitleUpdated(sid, title string) []byte {
	return newPayload(EventTitleUpdated, sid, len(title)+32).text("title", title).done()
}

// PeerMessage builds run.peer_user_message (section 3.6): the id is the client's
// queue id, else the row id.
func PeerMessage(sid string, row Message) []byte {
	type message struct {
		ID        any    `json:"id"`
		Role      string `json:"role"`
		Content   string `json:"content"`
		Timestamp int64  `json:"timestamp"`
	}
	m := message{ID: row.ID, Role: row.Role, Content: row.Content, Timestamp: row.Timestamp}
	if row.QueueID != "" {
		m.ID = row.QueueID
	}
	return mustJSON(struct {
		Event     string  `json:"event"`
		SessionID string  `json:"session_id"`
		Message   message `json:"message"`
	}{EventPeerMessage, sid, m})
}

// QueuedMessage is an entry of the queue panel (section 3.7).
type QueuedMessage struct {
	ID        string `json:"id"`
	Role      string `json:"role"`
	Content   string `json:"content"`
	Timestamp int64  `json:"timestamp"`
	Queued    bool   `json:"queued"`
}

// RunQueued builds run.queued (section 3.7): the list is always sent, and the
// item that left it to be run.
func RunQueued(sid string, queue []QueuedMessage, dequeued string) []byte {
	if queue == nil {
		queue = []QueuedMessage{}
	}
	return mustJSON(struct {
		Event     string          `json:"event"`
		SessionID string          `json:"session_id"`
		Length    int             `json:"queue_length"`
		Dequeued  string          `json:"dequeued_queue_id,omitempty"`
		Queue     []QueuedMessage `json:"queued_messages"`
	}{EventRunQueued, sid, len(queue), dequeued, queue})
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("chatrun: a payload of plain fields does not marshal: " + err.Error())
	}
	return b
}

// SessionDeleted builds session.deleted: an addition of this server, which other
// front-ends ignore.
func SessionDeleted(sid string) []byte { return newPayload(EventSessionDeleted, sid, 16).done() }

// Tool identifies the call that a tool event speaks of.
type Tool struct {
	ID   string `json:"tool_call_id"`
	Name string `json:"name"`
}

// DecodeTool reads the call of a tool event's payload.
func DecodeTool(payload []byte) (Tool, bool) {
	var t Tool
	err := json.Unmarshal(payload, &t)
	return t, err == nil && t.ID != ""
}

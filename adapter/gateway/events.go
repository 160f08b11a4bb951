package gateway

// EventHandler receives the events of one turn, in wire order, from the
// goroutine that called [Client.Responses]. Calls never overlap and none comes
// after Responses has returned. A handler that cannot go on cancels the
// context it gave to Responses. Strings may be kept; they share no buffer.
type EventHandler interface {
	// Created reports the response id and the model the gateway names.
	Created(Created)
	// TextDelta delivers the next piece of the answer; it is never empty and
	// always valid UTF-8. The text of the turn is the concatenation of all
	// deltas (GW-20).
	TextDelta(text string)
	// TextDone says that the message item is closed; no text follows in this turn.
	TextDone()
	// ToolStarted opens a tool call, once per call id.
	ToolStarted(ToolCall)
	// ToolCallDone says that the call's arguments are final, once per call id.
	// The tool is still running: its end is ToolOutput.
	ToolCallDone(ToolCall)
	// ToolOutput delivers a tool's full result, once per call id. It may come
	// for a call that was never started.
	ToolOutput(ToolOutput)
	// KeepAlive reports a comment from the gateway. It is a sign of life, not
	// progress (GW-12).
	KeepAlive()
	// Pause says that no further event is at hand: the next one has to be waited
	// for. A handler that collects events lets them go now.
	Pause()
}

// Created is the content of response.created.
type Created struct {
	ResponseID string // "" if the gateway named none
	Model      string
}

// ToolCall is a function call made by the agent.
type ToolCall struct {
	CallID    string // the model's own call id; joins call and output (GW-23)
	Name      string
	Arguments string // JSON text, "{}" if the gateway gave none
}

// ToolOutput is the result of a function call. There is no failure flag on the
// wire; only the text tells.
type ToolOutput struct {
	CallID string
	Output string // plain text; text parts joined by LF, anything else as JSON text
}

// Usage is the token count of a turn. The gateway sends zeros, or nothing at
// all, when the model gave no count, so only positive numbers mean something.
type Usage struct {
	InputTokens      int64
	OutputTokens     int64
	TotalTokens      int64
	CacheReadTokens  int64
	CacheWriteTokens int64
	ReasoningTokens  int64
}

// IsZero reports whether the gateway counted nothing.
func (u Usage) IsZero() bool { return u == Usage{} }

// Kind says how a turn ended.
type Kind uint8

// The ways a turn ends.
const (
	// Failed: the turn gave no complete answer; the error of the call says why.
	Failed Kind = iota
	// Completed: the answer is whole.
	Completed
)

// Outcome is what is known about a turn when it is over. It is filled as far
// as the stream went, also when the turn failed or was lost.
type Outcome struct {
	Kind       Kind
	ResponseID string
	Model      string
	// Text is the answer as the final envelope states it (chat-run 4.5). It
	// holds all text of the turn, words before tools included; it is "" when
	// no envelope came. Use it only if no delta came (SSE-12, SSE-13).
	Text string
	// Streamed says whether any text delta was delivered to the handler.
	Streamed bool
	Usage    Usage
	// ExtraItems are calls and outputs that only the final envelope held, in
	// its order. Outputs there are trimmed by the gateway (T29).
	ExtraItems []Item
	// Masked says that the gateway reported success but the answer is a
	// provider failure (T3); the streamed text is then the error text.
	Masked bool
}

// Item is a tool item of the final envelope: exactly one of Call and Output is set.
type Item struct {
	Call   *ToolCall
	Output *ToolOutput
}

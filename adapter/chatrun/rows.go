package chatrun

import "encoding/json"

// ToolCall is a call as stored in an assistant row (section 4.1).
type ToolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function ToolFunction `json:"function"`
}

// ToolFunction names the tool; Arguments is JSON text.
type ToolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// RowData is the content of a transcript row as the store keeps it: everything
// but id, session and time, which the store adds (section 6.4).
type RowData struct {
	Role         string     `json:"role"`
	Content      string     `json:"content"`
	Reasoning    string     `json:"reasoning,omitempty"`
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID   string     `json:"tool_call_id,omitempty"`
	ToolName     string     `json:"tool_name,omitempty"`
	ToolError    bool       `json:"tool_error,omitempty"`
	FinishReason string     `json:"finish_reason,omitempty"`
	QueueID      string     `json:"queue_id,omitempty"` // user rows: the client's own id
}

// Encode returns the stored form of the row.
func (d RowData) Encode() []byte {
	b, err := json.Marshal(d)
	if err != nil {
		panic("chatrun: a row of strings does not marshal: " + err.Error())
	}
	return b
}

// DecodeRow reads the stored form of a row.
func DecodeRow(data []byte) (RowData, error) {
	var d RowData
	err := json.Unmarshal(data, &d)
	return d, err
}

// Message is a row on the wire (section 6.4).
type Message struct {
	ID           int64      `json:"id"`
	SessionID    string     `json:"session_id"`
	Role         string     `json:"role"`
	Content      string     `json:"content"`
	Reasoning    string     `json:"reasoning"`
	Timestamp    int64      `json:"timestamp"` // Unix seconds
	ToolCalls    []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID   string     `json:"tool_call_id,omitempty"`
	ToolName     string     `json:"tool_name,omitempty"`
	QueueID      string     `json:"queue_id,omitempty"`
	FinishReason *string    `json:"finish_reason"` // null only for an open assistant row (CR-98)
	RunMarker    string     `json:"runMarker,omitempty"`
}

// Message renders a stored row for the wire; ms is the row's time in Unix
// milliseconds.
func (d RowData) Message(id int64, sid string, ms int64) Message {
	finish := d.FinishReason
	if finish == "" {
		finish = "stop"
	}
	return Message{
		ID: id, SessionID: sid, Role: d.Role, Content: d.Content, Reasoning: d.Reasoning,
		Timestamp: ms / 1000, ToolCalls: d.ToolCalls, ToolCallID: d.ToolCallID, ToolName: d.ToolName,
		QueueID: d.QueueID, FinishReason: &finish,
	}
}

// SessionRow is a session in list views and the HTTP API. Times are Unix seconds;
// unknown numbers are 0, unknown strings null.
type SessionRow struct {
	ID               string   `json:"id"`
	Profile          string   `json:"profile"`
	Source           string   `json:"source"`
	UserID           *string  `json:"user_id"`
	Model            *string  `json:"model"`
	Provider         *string  `json:"provider"`
	Title            *string  `json:"title"`
	Preview          string   `json:"preview"`
	StartedAt        int64    `json:"started_at"`
	EndedAt          *int64   `json:"ended_at"`
	EndReason        *string  `json:"end_reason"`
	LastActive       int64    `json:"last_active"`
	MessageCount     int64    `json:"message_count"`
	ToolCallCount    int64    `json:"tool_call_count"`
	InputTokens      int64    `json:"input_tokens"`
	OutputTokens     int64    `json:"output_tokens"`
	CacheReadTokens  int64    `json:"cache_read_tokens"`
	CacheWriteTokens int64    `json:"cache_write_tokens"`
	ReasoningTokens  int64    `json:"reasoning_tokens"`
	BillingProvider  *string  `json:"billing_provider"`
	EstimatedCostUSD float64  `json:"estimated_cost_usd"`
	ActualCostUSD    *float64 `json:"actual_cost_usd"`
	CostStatus       *string  `json:"cost_status"`
	Workspace        *string  `json:"workspace"`
	Archived         bool     `json:"is_archived"`
	IsWorking        bool     `json:"is_working"`
}

package chatrun

// Resumed is the answer to resume (section 6.2, with the paging fields of 13.5).
type Resumed struct {
	SessionID     string          `json:"session_id"`
	Messages      []Message       `json:"messages"`
	IsWorking     bool            `json:"isWorking"`
	IsAborting    bool            `json:"isAborting"`
	Events        []RingEvent     `json:"events"`
	InputTokens   int64           `json:"inputTokens"`
	OutputTokens  int64           `json:"outputTokens"`
	ContextTokens int64           `json:"contextTokens,omitempty"`
	QueueLength   int             `json:"queueLength"`
	QueueMessages []QueuedMessage `json:"queueMessages"`

	MessageTotal       int64 `json:"messageTotal"`
	MessageLoadedCount int   `json:"messageLoadedCount"`
	MessagePageLimit   int   `json:"messagePageLimit"`
	HasMoreBefore      bool  `json:"hasMoreBefore"`
}

// OpenMessage renders the text of the active run that has not become a row yet.
// id is the one its row will get, so that the same message has one id for ever
// (D-13). ok is false if there is nothing to show.
func (v *View) OpenMessage(id int64, sid string, ms int64) (m Message, ok bool) {
	if v.text.Len() == 0 && v.reasoning.Len() == 0 {
		return m, false
	}
	return Message{
		ID: id, SessionID: sid, Role: "assistant", Content: v.Text(), Reasoning: v.Reasoning(),
		Timestamp: ms / 1000, RunMarker: v.runID,
	}, true
}

// Encode returns the payload; empty lists are sent as such.
func (r Resumed) Encode() []byte {
	if r.Messages == nil {
		r.Messages = []Message{}
	}
	if r.Events == nil {
		r.Events = []RingEvent{}
	}
	if r.QueueMessages == nil {
		r.QueueMessages = []QueuedMessage{}
	}
	r.QueueLength = len(r.QueueMessages)
	r.MessageLoadedCount = len(r.Messages)
	return mustJSON(r)
}

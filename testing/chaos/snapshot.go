package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Run is one user message of a transcript with everything that belongs to it.
type Run struct {
	QID   string
	Text  string
	Tools []string // calls whose result stands in the transcript, in order
	// Outcome by the last row; empty while the run may still go on.
	Outcome Outcome
}

// Snapshot is what `resumed` shows.
type Snapshot struct {
	Session  string
	Working  bool
	Aborting bool
	Queued   []string
	Runs     []Run
	Open     bool     // the last run has text that is no row yet
	Running  []string // tools that run
	Started  bool     // the ring shows run.started
}

type snapshotRow struct {
	Role         string  `json:"role"`
	Content      string  `json:"content"`
	QueueID      string  `json:"queue_id"`
	ToolCallID   string  `json:"tool_call_id"`
	FinishReason *string `json:"finish_reason"`
	ToolCalls    []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// ParseSnapshot reads the payload of `resumed`.
func ParseSnapshot(raw json.RawMessage) (Snapshot, error) {
	var wire struct {
		SessionID     string          `json:"session_id"`
		Messages      []snapshotRow   `json:"messages"`
		IsWorking     bool            `json:"isWorking"`
		IsAborting    bool            `json:"isAborting"`
		QueueMessages []queuedMessage `json:"queueMessages"`
		Events        []struct {
			Event string  `json:"event"`
			Data  payload `json:"data"`
		} `json:"events"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Snapshot{}, fmt.Errorf("resumed: %w", err)
	}
	s := Snapshot{Session: wire.SessionID, Working: wire.IsWorking, Aborting: wire.IsAborting}
	for _, m := range wire.QueueMessages {
		s.Queued = append(s.Queued, m.ID)
	}
	for _, row := range wire.Messages {
		if err := s.add(row); err != nil {
			return Snapshot{}, err
		}
	}
	for _, e := range wire.Events {
		switch e.Event {
		case "run.started":
			s.Started = true
		case "tool.started":
			s.Running = append(s.Running, e.Data.Tool)
		}
	}
	return s, nil
}

func (s *Snapshot) add(row snapshotRow) error {
	if row.Role == "user" {
		s.Runs = append(s.Runs, Run{QID: row.QueueID})
		return nil
	}
	if len(s.Runs) == 0 {
		return fmt.Errorf("a row of role %q before any message", row.Role)
	}
	run := &s.Runs[len(s.Runs)-1]
	switch row.Role {
	case "tool":
		run.Tools = append(run.Tools, row.ToolCallID)
		run.Outcome = ""
	case "assistant":
		run.Text += row.Content
		s.Open = row.FinishReason == nil
		run.Outcome = outcomeOf(row)
	}
	return nil
}

// outcomeOf reads an assistant row. A text that was sealed because a tool began
// looks like the end of an answer; the row of the call comes right behind it.
func outcomeOf(row snapshotRow) Outcome {
	if row.FinishReason == nil || len(row.ToolCalls) > 0 {
		return ""
	}
	switch *row.FinishReason {
	case "stop":
		return Completed
	case "aborted":
		return Aborted
	case "error":
		return Failed
	}
	return ""
}

// equalRuns compares what two snapshots show of a run.
func equalRuns(a, b Run) bool {
	return a.QID == b.QID && a.Text == b.Text && a.Outcome == b.Outcome && strings.Join(a.Tools, " ") == strings.Join(b.Tools, " ")
}

package chaos

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

func TestMessagesSurviveTheirText(t *testing.T) {
	for _, kind := range []Kind{KindText, KindTools, KindFailed, KindCut, KindRefused, KindBusy} {
		m := Message{QID: "alice.alice-1-r0.a1.7", Kind: kind, Words: 9, Pace: 70 * time.Millisecond}
		if again, ok := ParseMessage(m.Input()); !ok || again != m {
			t.Errorf("%+v is read as %+v, %t", m, again, ok)
		}
		if text := m.Text(); text != "" && qidOf(text) != m.QID {
			t.Errorf("%q is of message %q", text, qidOf(text))
		}
		if sessionOf(m.QID) != "alice-1-r0" {
			t.Errorf("%q is of session %q", m.QID, sessionOf(m.QID))
		}
		if calls := len(m.ToolsAt()); (kind == KindTools) != (calls == 2) {
			t.Errorf("%s has %d tool calls", kind, calls)
		}
	}
	for _, text := range []string{"", "hello", "chaos x text 1", "chaos x text a 1", "chaos x text 1 b", "other x text 1 1"} {
		if m, ok := ParseMessage(text); ok {
			t.Errorf("%q is read as %+v", text, m)
		}
	}
}

func TestSnapshotsTellWhatRuns(t *testing.T) {
	const user = `{"role":"user","queue_id":"q1","content":"x","finish_reason":"stop"}`
	for _, c := range []struct {
		what, rows, events string
		want               Run
		open               bool
	}{
		{"nothing yet", user, ``, Run{QID: "q1"}, false},
		{"open text", user + `,{"role":"assistant","content":"a ","finish_reason":null}`, ``, Run{QID: "q1", Text: "a "}, true},
		{"a tool runs", user + `,{"role":"assistant","content":"a ","finish_reason":"stop"},
			{"role":"assistant","content":"","finish_reason":"tool_calls","tool_calls":[{"id":"t1"}]}`,
			`{"event":"tool.started","data":{"tool_call_id":"t1"}}`, Run{QID: "q1", Text: "a "}, false},
		{"completed behind a tool", user + `,{"role":"assistant","content":"a ","finish_reason":"stop"},
			{"role":"assistant","content":"","finish_reason":"tool_calls","tool_calls":[{"id":"t1"}]},
			{"role":"tool","content":"done","tool_call_id":"t1","finish_reason":"stop"},
			{"role":"assistant","content":"b ","finish_reason":"stop"}`,
			``, Run{QID: "q1", Text: "a b ", Tools: []string{"t1"}, Outcome: Completed}, false},
		{"failed", user + `,{"role":"assistant","content":"a ","finish_reason":"error"}`, ``, Run{QID: "q1", Text: "a ", Outcome: Failed}, false},
		{"aborted", user + `,{"role":"assistant","content":"a ","finish_reason":"aborted"}`, ``, Run{QID: "q1", Text: "a ", Outcome: Aborted}, false},
	} {
		s, err := ParseSnapshot(json.RawMessage(`{"session_id":"s","isWorking":true,"messages":[` + c.rows + `],"events":[` + c.events + `]}`))
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if len(s.Runs) != 1 || !equalRuns(s.Runs[0], c.want) || s.Open != c.open {
			t.Errorf("%s: %+v", c.what, s)
		}
		if running := c.events != ""; running != slices.Contains(s.Running, "t1") {
			t.Errorf("%s: running %v", c.what, s.Running)
		}
	}
	if _, err := ParseSnapshot(json.RawMessage(`{"messages":[{"role":"assistant"}]}`)); err == nil {
		t.Error("an answer before any message is read")
	}
}

package chatrun

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func fieldsOf(t *testing.T, payload []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(payload, &m); err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	return m
}

// The exact fields of each event (section 3): CR-11, CR-12, CR-14, CR-29..CR-33.
func TestPayloadFields(t *testing.T) {
	for _, tc := range []struct {
		name    string
		payload []byte
		want    string
	}{
		{"run.started", WithNumber(RunStarted("s1", "resp_1", "in_progress"), "queue_length", 2),
			`{"event":"run.started","session_id":"s1","run_id":"resp_1","response_id":"resp_1","status":"in_progress","queue_length":2}`},
		{"message.delta", MessageDelta("s1", "resp_1", "lo\n\"x\""),
			`{"event":"message.delta","session_id":"s1","run_id":"resp_1","response_id":"resp_1","delta":"lo\n\"x\""}`},
		{"delta before the id", MessageDelta("s1", "", "x"), `{"event":"message.delta","session_id":"s1","delta":"x"}`},
		{"reasoning", ReasoningDelta("s1", "r", "why"), `{"event":"reasoning.delta","session_id":"s1","run_id":"r","text":"why"}`},
		{"tool.started", ToolStarted("s1", "r", "c", "terminal", `{"command":"ls"}`),
			`{"event":"tool.started","session_id":"s1","run_id":"r","response_id":"r","tool_call_id":"c","tool":"terminal","name":"terminal","arguments":"{\"command\":\"ls\"}","preview":"ls"}`},
		{"tool.completed", ToolCompleted("s1", "r", "c", "t", "Error: x", 0.4249, true),
			`{"event":"tool.completed","session_id":"s1","run_id":"r","response_id":"r","tool_call_id":"c","tool":"t","name":"t","output":"Error: x","duration":0.42,"error":true}`},
		{"no duration, no error", ToolCompleted("s1", "r", "c", "t", "ok", -1, false),
			`{"event":"tool.completed","session_id":"s1","run_id":"r","response_id":"r","tool_call_id":"c","tool":"t","name":"t","output":"ok"}`},
		{"run.completed", WithNumber(RunCompleted("s1", Ending{RunID: "r", Output: "o", Usage: &RunUsage{1, 2, 3}, Tokens: Tokens{1, 2, 3}}), "queue_remaining", 0),
			`{"event":"run.completed","session_id":"s1","run_id":"r","response_id":"r","output":"o","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3},"inputTokens":1,"outputTokens":2,"contextTokens":3,"queue_remaining":0}`},
		{"run.failed", RunFailed("s1", Ending{Error: "e"}),
			`{"event":"run.failed","session_id":"s1","output":"","inputTokens":0,"outputTokens":0,"error":"e"}`},
		{"refused", RunRefused("", "", "e"), `{"event":"run.failed","error":"e"}`},
		{"abort.started", AbortStarted("s1", ""), `{"event":"abort.started","session_id":"s1","run_id":"response_stream","graceMs":5000}`},
		{"abort ignored", AbortIgnored("s1"), `{"event":"abort.completed","session_id":"s1","synced":false,"ignored":true}`},
		{"usage", UsageUpdated("s1", Tokens{1, 2, 0}), `{"event":"usage.updated","session_id":"s1","inputTokens":1,"outputTokens":2}`},
		{"queued", RunQueued("s1", nil, "q2"), `{"event":"run.queued","session_id":"s1","queue_length":0,"dequeued_queue_id":"q2","queued_messages":[]}`},
		{"peer, own id", PeerMessage("s1", RowData{Role: "user", Content: "hi", QueueID: "q1"}.Message(7, "s1", 1779600000123)),
			`{"event":"run.peer_user_message","session_id":"s1","message":{"id":"q1","role":"user","content":"hi","timestamp":1779600000}}`},
		{"peer, row id", PeerMessage("s1", RowData{Role: "user", Content: "hi"}.Message(7, "s1", 1779600000123)),
			`{"event":"run.peer_user_message","session_id":"s1","message":{"id":7,"role":"user","content":"hi","timestamp":1779600000}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, want := fieldsOf(t, tc.payload), fieldsOf(t, []byte(tc.want)); !reflect.DeepEqual(got, want) {
				t.Errorf("got\n %s\nwant\n %s", tc.payload, tc.want)
			}
		})
	}
}

// CR-54: every field of section 6.2 with its type, empty lists as lists.
func TestResumedOfAnUnknownSession(t *testing.T) {
	got := fieldsOf(t, Resumed{SessionID: "s1"}.Encode())
	for _, list := range []string{"messages", "events", "queueMessages"} {
		if l, ok := got[list].([]any); !ok || len(l) != 0 {
			t.Errorf("%s is %v", list, got[list])
		}
	}
	for _, field := range []string{"isWorking", "isAborting", "inputTokens", "outputTokens", "queueLength", "messageTotal", "hasMoreBefore"} {
		if _, ok := got[field]; !ok {
			t.Errorf("%s is missing", field)
		}
	}
	if _, ok := got["event"]; ok {
		t.Error("resumed carries an event field")
	}
}

// CR-15, CR-96
func TestParseRun(t *testing.T) {
	r, err := ParseRun(json.RawMessage(`{"session_id":"s1","input":[{"type":"text","text":"look"},{"type":"image","name":"a.png","path":"/x/a.png","media_type":"image/png"}],
		"queue_id":"q","profile":" work ","model":null,"source":"cli","model_groups":[{"provider":"p","models":["m"]}],"reasoning_effort":"high","display_input":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Profile != "work" || r.QueueID != "q" || r.Input.PlainText() != "look" || len(r.Input.Blocks) != 2 {
		t.Errorf("%+v", r)
	}
	if back := StoredInput(r.Input.Stored()); !reflect.DeepEqual(back.Blocks, r.Input.Blocks) {
		t.Errorf("stored form reads back as %+v", back)
	}
	if in := StoredInput("[1,2]"); in.Blocks != nil || in.Text != "[1,2]" {
		t.Errorf("D-22: a plain array became %+v", in)
	}
}

// CR-91, CR-76, section 9.5
func TestHistory(t *testing.T) {
	rows := []RowData{
		{Role: "user", Content: `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "c", Function: ToolFunction{"terminal", strings.Repeat("x", 5000)}}}},
		{Role: "tool", Content: "out", ToolCallID: "c"},
		{Role: "command", Content: "/status"},
		{Role: "assistant", Content: ""},
		{Role: "assistant", Content: "[1,2]"},
	}
	got := History(rows)
	want := []HistoryMessage{
		{"user", "a\nb"},
		{"assistant", "[Calling tool: terminal with arguments: " + strings.Repeat("x", 4000) + "...]"},
		{"user", "[Tool result: out]"},
		{"assistant", "[1,2]"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// A checkpoint plus the events behind it is the fold of all of them, wherever the
// cut is.
func TestViewCutAnywhere(t *testing.T) {
	type ev struct {
		name    string
		payload []byte
	}
	events := []ev{
		{EventRunStarted, RunStarted("s", "r", "in_progress")}, {EventMessageDelta, MessageDelta("s", "r", "one ")},
		{EventReasoningDelta, ReasoningDelta("s", "r", "hm")}, {EventToolStarted, ToolStarted("s", "r", "c", "t", "{}")},
		{EventToolCompleted, ToolCompleted("s", "r", "c", "t", "ok", 1, false)}, {EventMessageDelta, MessageDelta("s", "r", "two")},
		{EventUsageUpdated, UsageUpdated("s", Tokens{})}, {EventMessageDelta, []byte("not JSON")},
	}
	whole := &View{}
	for _, e := range events {
		whole.Apply(e.name, e.payload)
	}
	if whole.Text() != "two" || len(whole.Ring()) != 3 || whole.RunID() != "r" || !whole.Streamed() {
		t.Fatalf("fold: text %q, ring %d", whole.Text(), len(whole.Ring()))
	}
	for cut := range events {
		part := &View{}
		for _, e := range events[:cut] {
			part.Apply(e.name, e.payload)
		}
		back, err := DecodeView(part.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events[cut:] {
			back.Apply(e.name, e.payload)
		}
		if string(back.Encode()) != string(whole.Encode()) {
			t.Errorf("cut at %d: %s\nwhole %s", cut, back.Encode(), whole.Encode())
		}
	}
}

// FuzzDecodeView: a checkpoint of any bytes is refused or comes back.
func FuzzDecodeView(f *testing.F) {
	v := &View{}
	v.Apply(EventRunStarted, RunStarted("s", "r", "x"))
	v.AddText("text\nmore")
	v.AddReasoning("why")
	f.Add(v.Encode())
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := DecodeView(data)
		if err != nil {
			return
		}
		back, err := DecodeView(v.Encode())
		if err != nil || back.Text() != v.Text() || back.Reasoning() != v.Reasoning() {
			t.Fatalf("%q came back as %q, %v", v.Text(), back.Text(), err)
		}
	})
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(`{"session_id":"s1","input":"x"}`))
	f.Add([]byte(`{"session_id":"s1","input":[{"type":"text","text":"x"}],"profile":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ParseRun(raw)
		if err == nil && (!ValidSessionID(r.SessionID) || r.Input.Stored() == "") {
			t.Fatalf("accepted %+v", r)
		}
		ParseSession(raw)
	})
}

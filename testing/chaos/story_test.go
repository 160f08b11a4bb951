package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const storySession = "alice-1-r0"

// The messages of the story: the first runs, the second waits behind it, the third
// fails, the fourth is cancelled.
var story = []Message{
	{QID: "alice." + storySession + ".a1.1", Kind: KindText, Words: 4},
	{QID: "alice." + storySession + ".a1.2", Kind: KindTools, Words: 6},
	{QID: "alice." + storySession + ".a1.3", Kind: KindFailed, Words: 3},
	{QID: "alice." + storySession + ".a1.4", Kind: KindText, Words: 3},
}

// teller writes the evidence of a session in which all goes well.
type teller struct {
	ev  Evidence
	now time.Duration
}

func (s *teller) add(client, what, name string, payload map[string]any) {
	s.now += time.Millisecond
	session := storySession
	if what == EntryConnected || what == EntryLost {
		session = ""
	} else {
		payload["session_id"] = session
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err)
	}
	user := map[byte]string{'a': "alice", 'b': "bob"}[client[0]]
	s.ev.Journals[client] = append(s.ev.Journals[client], Entry{
		At: s.now, Client: client, User: user, Node: "n1", What: what, Name: name, Session: session, Payload: raw,
	})
}

// show is an event that both windows of the user get; but names one that does not.
func (s *teller) show(but, name string, payload map[string]any) {
	for _, client := range []string{"a1", "a2"} {
		if client != but {
			s.add(client, EntryReceived, name, payload)
		}
	}
}

func (s *teller) connect(client string, recovered bool) {
	s.add(client, EntryConnected, "", nil)
	journal := s.ev.Journals[client]
	journal[len(journal)-1].Recovered = recovered
}

func (s *teller) send(m Message) {
	s.add("a1", EntrySent, "run", map[string]any{"queue_id": m.QID, "input": m.Input()})
}

func (s *teller) queued(dequeued string, waiting ...Message) {
	list := []map[string]any{}
	for _, m := range waiting {
		list = append(list, map[string]any{"id": m.QID})
	}
	payload := map[string]any{"queue_length": len(list), "queued_messages": list}
	if dequeued != "" {
		payload["dequeued_queue_id"] = dequeued
	}
	s.show("", "run.queued", payload)
}

// run carries a message out; between is told in the middle of it.
func (s *teller) run(m Message, between func()) {
	response := "resp_" + m.QID
	s.now += time.Millisecond
	call := Call{QID: m.QID, Response: response, At: s.now, Words: m.Words, Over: true}
	s.show("", "run.started", map[string]any{"run_id": response})
	for i, item := range m.Answer() {
		if i == 2 && between != nil {
			between()
		}
		if item.Tool != "" {
			s.show("", "tool.started", map[string]any{"tool_call_id": item.Tool})
			s.show("", "tool.completed", map[string]any{"tool_call_id": item.Tool})
			continue
		}
		s.show("", "message.delta", map[string]any{"run_id": response, "delta": item.Word})
	}
	name := "run.completed"
	if m.Outcome() == Failed {
		name = "run.failed"
	}
	s.show("", name, map[string]any{"run_id": response, "output": m.Text()})
	call.End = s.now
	s.ev.Calls = append(s.ev.Calls, call)
}

// snapshot is the payload of `resumed` behind the first n messages, the last of
// them running if open says so.
func (s *teller) snapshot(n int, working bool) map[string]any {
	rows := []map[string]any{}
	for i, m := range story[:n] {
		rows = append(rows, map[string]any{"role": "user", "content": m.Input(), "queue_id": m.QID})
		if working && i == n-1 {
			rows = append(rows, map[string]any{"role": "assistant", "content": m.Answer()[0].Word, "finish_reason": nil})
			continue
		}
		rows = append(rows, answerRows(m)...)
	}
	return map[string]any{"messages": rows, "isWorking": working, "session_id": storySession}
}

func answerRows(m Message) []map[string]any {
	var rows []map[string]any
	text := ""
	for _, item := range m.Answer() {
		if item.Tool == "" {
			text += item.Word
			continue
		}
		rows = append(rows, map[string]any{"role": "assistant", "content": text, "finish_reason": "stop"},
			map[string]any{"role": "assistant", "content": "", "finish_reason": "tool_calls", "tool_calls": []map[string]any{{"id": item.Tool}}},
			map[string]any{"role": "tool", "content": "done", "tool_call_id": item.Tool})
		text = ""
	}
	reason := "stop"
	if m.Outcome() == Failed {
		reason = "error"
	}
	return append(rows, map[string]any{"role": "assistant", "content": text, "finish_reason": reason})
}

// goodStory is evidence without fault: two windows, a stranger, one recovered and
// one fresh connection.
func goodStory() Evidence {
	s := &teller{ev: Evidence{
		Owners: map[string]string{storySession: "alice"}, Journals: make(map[string][]Entry), Final: make(map[string][]Snapshot),
	}}
	for _, client := range []string{"a1", "a2", "b1"} {
		s.connect(client, false)
		s.add(client, EntryReceived, "resumed", map[string]any{"messages": []any{}})
	}
	s.send(story[0])
	s.show("a1", "run.peer_user_message", map[string]any{"message": map[string]any{"id": story[0].QID}})
	s.run(story[0], func() {
		for i := 1; i < 4; i++ {
			s.send(story[i])
			s.queued("", story[1:i+1]...)
		}
		s.add("a1", EntrySent, "cancel_queued_run", map[string]any{"queue_id": story[3].QID})
		s.queued("", story[1:3]...)
	})
	s.queued(story[1].QID, story[2])
	s.show("a1", "run.peer_user_message", map[string]any{"message": map[string]any{"id": story[1].QID}})
	s.run(story[1], func() { s.add("a2", EntryLost, "cut", nil); s.connect("a2", true) })
	s.queued(story[2].QID)
	s.show("a1", "run.peer_user_message", map[string]any{"message": map[string]any{"id": story[2].QID}})
	s.run(story[2], func() {
		s.add("a1", EntryLost, "cut", nil)
		s.connect("a1", false)
		snapshot := s.snapshot(3, true)
		snapshot["messages"].([]map[string]any)[len(snapshot["messages"].([]map[string]any))-1]["content"] =
			story[2].Answer()[0].Word + story[2].Answer()[1].Word
		s.add("a1", EntryReceived, "resumed", snapshot)
	})
	raw, err := json.Marshal(s.snapshot(3, false))
	if err != nil {
		panic(err)
	}
	for range 3 {
		final, err := ParseSnapshot(raw)
		if err != nil {
			panic(err)
		}
		s.ev.Final[storySession] = append(s.ev.Final[storySession], final)
	}
	return s.ev
}

// find returns the place of the nth event of a client that fits, from 0.
func find(t *testing.T, ev Evidence, client, what, name, text string, nth int) int {
	t.Helper()
	for i, e := range ev.Journals[client] {
		if e.What == what && e.Name == name && strings.Contains(string(e.Payload), text) {
			if nth == 0 {
				return i
			}
			nth--
		}
	}
	t.Fatalf("no %s %s %q of %s", what, name, text, client)
	return 0
}

func drop(t *testing.T, ev Evidence, client, name, text string) {
	i := find(t, ev, client, EntryReceived, name, text, 0)
	ev.Journals[client] = slices.Delete(ev.Journals[client], i, i+1)
}

func double(t *testing.T, ev Evidence, client, name, text string) {
	i := find(t, ev, client, EntryReceived, name, text, 0)
	ev.Journals[client] = slices.Insert(ev.Journals[client], i+1, ev.Journals[client][i])
}

// move puts an event of a client behind another one.
func move(t *testing.T, ev Evidence, client, name, text, behind, behindText string) {
	i := find(t, ev, client, EntryReceived, name, text, 0)
	e := ev.Journals[client][i]
	ev.Journals[client] = slices.Delete(ev.Journals[client], i, i+1)
	j := find(t, ev, client, EntryReceived, behind, behindText, 0)
	ev.Journals[client] = slices.Insert(ev.Journals[client], j+1, e)
}

// rewrite changes the payload of an event.
func rewrite(t *testing.T, ev Evidence, client, what, name, text, old, new string) {
	i := find(t, ev, client, what, name, text, 0)
	e := &ev.Journals[client][i]
	changed := strings.Replace(string(e.Payload), old, new, 1)
	if changed == string(e.Payload) {
		t.Fatalf("%q is not in %s", old, e.Payload)
	}
	e.Payload = json.RawMessage(changed)
}

func words(m Message, i int) string { return fmt.Sprintf("%s#%d ", m.QID, i) }

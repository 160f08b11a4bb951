package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// polling connects over long-polling and returns the address of the session.
func (e *env) polling(token string) string {
	e.t.Helper()
	base := e.server.URL + "/socket.io/?EIO=4&transport=polling"
	var opened struct{ SID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(get(e.t, base), "0")), &opened); err != nil {
		e.t.Fatal(err)
	}
	base += "&sid=" + opened.SID
	post(e.t, base, `40/chat-run,{"token":"`+token+`"}`)
	get(e.t, base) // the answer to CONNECT
	return base
}

// A client that does not read holds nobody up, and has the whole text when it
// reads again (invariants 4 and 7). Over polling nothing hides in network buffers.
func TestClientThatDoesNotRead(t *testing.T) {
	e := start(t, func(s *Settings) { s.Limits.SendBuffer = 4 << 10 })
	base := e.polling(aliceToken)
	post(t, base, `42/chat-run,["resume",{"session_id":"s1"}]`)
	get(t, base) // resumed

	var want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "%d %s", i, strings.Repeat("x", 200))
	}
	e.gw.SetScript(func(t *fakegateway.Turn) {
		for i := range 200 {
			t.Delta(fmt.Sprintf("%d %s", i, strings.Repeat("x", 200)))
		}
		t.Complete(fakegateway.Usage{Input: 1, Output: 1})
	})
	quick := e.client(aliceToken)
	quick.run("s1", "q1", "go")
	quick.next("run.completed")

	var got strings.Builder
	for ended := false; !ended; {
		for packet := range strings.SplitSeq(get(t, base), "\x1e") {
			event, ok := strings.CutPrefix(packet, "42/chat-run,")
			if !ok {
				continue
			}
			r := parseEvent([]byte(event))
			ended = ended || r.name == "run.completed"
			got.WriteString(r.text("delta"))
		}
	}
	if got.String() != want.String() {
		t.Errorf("got %d bytes, want %d", got.Len(), want.Len())
	}
}

// A full buffer refuses an event: then nothing has moved, no later packet claims
// that the client has it, and the caller is told when there is room again.
func TestFullBufferMovesNothing(t *testing.T) {
	e := start(t, func(s *Settings) { s.Limits.SendBuffer = 4 << 10 })
	base := e.polling(aliceToken)
	s := e.core.sockets.all()[0]
	payload := json.RawMessage(`{"x":"` + strings.Repeat("x", 1000) + `"}`)
	sent := int64(0)
	for s.Send(&engine.Event{Name: "message.delta", Payload: payload}, room("r", sent+1)) {
		if sent++; sent > 100 {
			t.Fatal("the buffer has no limit")
		}
	}
	s.mu.Lock()
	last := s.track.rooms[0].last
	s.mu.Unlock()
	if last != at(sent) {
		t.Errorf("the room stands at %v after %d events", last, sent)
	}
	drained := make(chan struct{})
	s.Drained(func() { close(drained) })
	select {
	case <-drained:
		t.Error("drained although nobody has read")
	default:
	}
	get(t, base)
	<-drained
	if !s.Send(&engine.Event{Name: "message.delta", Payload: payload}, room("r", sent+1)) {
		t.Error("refused after the client has read")
	}
}

// An event is encoded once for all sockets.
func TestOneFrameForAllSockets(t *testing.T) {
	e := start(t, nil)
	clients := []*client{e.client(aliceToken), e.client(aliceToken)}
	event := &engine.Event{Name: "x", Payload: json.RawMessage(`{"a":1}`)}
	var frame any
	for i, s := range e.core.sockets.all() {
		s.Send(event, engine.Room{})
		if i > 0 && event.Frame != frame {
			t.Error("encoded again")
		}
		frame = event.Frame
	}
	for _, c := range clients {
		if r := c.next("x"); r.payload["a"] != 1.0 {
			t.Errorf("payload %v", r.payload)
		}
	}
}

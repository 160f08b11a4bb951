package edge

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// A client that does not read holds nobody up, and has the whole text when it
// reads again (invariants 4 and 7). Over polling nothing hides in network buffers.
func TestClientThatDoesNotRead(t *testing.T) {
	e := start(t, func(s *Settings) { s.Limits.SendBuffer = 4 << 10 })
	base := e.server.URL + "/socket.io/?EIO=4&transport=polling"
	var opened struct{ SID string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(get(t, base), "0")), &opened); err != nil {
		t.Fatal(err)
	}
	base += "&sid=" + opened.SID
	post(t, base, `40/chat-run,{"token":"`+aliceToken+`"}`)
	get(t, base) // the answer to CONNECT
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

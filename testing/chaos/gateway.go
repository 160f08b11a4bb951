package chaos

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// Call is one request for an answer, as the gateway saw it.
type Call struct {
	QID      string
	Response string // id of the response
	At, End  time.Duration
	Refused  bool // 429 or 500: nothing of it was carried out
	Words    int  // sent
	Gone     bool // the edge closed the stream before its end
	Over     bool // nothing more comes
}

// Gateway is the record of the scripted gateway.
type Gateway struct {
	clock clock

	mu    sync.Mutex
	calls []*Call
	tries map[string]int
}

// busyTries is how often KindBusy is refused.
const busyTries = 2

func newGateway(c clock) *Gateway { return &Gateway{clock: c, tries: make(map[string]int)} }

// Script answers one turn; it is the gateway's [fakegateway.Script].
func (g *Gateway) Script(t *fakegateway.Turn) {
	m, ok := ParseMessage(t.Input)
	if !ok {
		t.Error(http.StatusBadRequest, "not a message of this test")
		return
	}
	c, try := g.begin(m, t.ID())
	defer g.end(c)
	switch {
	case m.Kind == KindRefused:
		g.update(func() { c.Refused = true })
		t.Error(http.StatusInternalServerError, "scripted failure")
	case m.Kind == KindBusy && try <= busyTries:
		g.update(func() { c.Refused = true })
		t.Error(http.StatusTooManyRequests, "too many runs")
	default:
		g.stream(t, m, c)
	}
}

func (g *Gateway) stream(t *fakegateway.Turn, m Message, c *Call) {
	t.Created()
	for _, item := range m.Answer() {
		if t.Gone() {
			break
		}
		if item.Tool != "" {
			index := t.ToolStart(item.Tool, "terminal", `{"command":"true"}`)
			t.Wait(m.Pace)
			t.ToolEnd(index, item.Tool, "terminal", `{"command":"true"}`, "done")
			continue
		}
		t.Delta(item.Word)
		g.update(func() { c.Words++ })
		t.Wait(m.Pace)
	}
	gone := t.Gone()
	g.update(func() { c.Gone = gone })
	switch {
	case gone || m.Kind == KindCut:
	case m.Kind == KindFailed:
		t.Fail("Error code: 503 - upstream overloaded")
	default:
		t.Complete(fakegateway.Usage{Input: 10, Output: m.Words})
	}
}

func (g *Gateway) begin(m Message, response string) (*Call, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &Call{QID: m.QID, Response: response, At: g.clock.now()}
	g.calls = append(g.calls, c)
	g.tries[m.QID]++
	return c, g.tries[m.QID]
}

func (g *Gateway) end(c *Call) {
	g.update(func() { c.End, c.Over = g.clock.now(), true })
}

func (g *Gateway) update(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// Calls returns a copy of the record.
func (g *Gateway) Calls() []Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := make([]Call, 0, len(g.calls))
	for _, c := range g.calls {
		calls = append(calls, *c)
	}
	return slices.Clip(calls)
}

// Forget drops the record; a new round begins.
func (g *Gateway) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls = nil
	clear(g.tries)
}

// clock counts from the start of the test.
type clock struct{ start time.Time }

func (c clock) now() time.Duration { return time.Since(c.start) }

package engine

import (
	"slices"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// window is a socket that notes what it is shown.
type window struct{ shown []string }

func (w *window) ID() string                 { return "window" }
func (w *window) Principal() *auth.Principal { return &auth.Principal{User: "alice"} }
func (w *window) Profile() string            { return "default" }
func (w *window) Drained(func())             {}
func (w *window) Gone() bool                 { return false }
func (w *window) Left(string)                {}
func (w *window) Close(CloseReason)          {}
func (w *window) Send(e *Event, _ Room) bool {
	w.shown = append(w.shown, string(e.Payload))
	return true
}

func batchOf(stamp, text string) *store.Batch {
	return &store.Batch{Stamp: stamp, Run: "r", Events: []store.NewEntry{
		{Kind: store.KindEvent, Name: "message.delta", Payload: []byte(text)},
	}}
}

// Contract 9.2: in order. An own batch that the log has, but the tail could not read
// yet, comes before what the store has not acknowledged.
func TestNothingIsShownAheadOfWhatTheLogHas(t *testing.T) {
	for _, c := range []struct {
		what  string
		acked int64 // of the own entries in the log; the tail stands at 5
		want  []string
	}{
		{"the tail has all", 5, []string{"later"}},
		{"the tail has a gap", 7, nil},
	} {
		s := newSession(&Engine{cfg: Config{Metrics: noMetrics{}}}, "s")
		s.pos = store.Position{Offset: 5, Stamp: "z"}
		w := &window{}
		s.members[w] = &member{sock: w, pos: s.pos, ahead: -1}
		s.ahead.acked = c.acked
		s.ahead.add(s, batchOf("stamp2", "later"), true)
		if !slices.Equal(w.shown, c.want) {
			t.Errorf("%s: shown %q", c.what, w.shown)
		}
	}
}

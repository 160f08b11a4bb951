package engine

import (
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Contract 5.3.4: a hint of what has been delivered wakes nobody, one of another
// incarnation does whatever its offset.
func TestHintsOfKnownOffsets(t *testing.T) {
	s := newSession(&Engine{}, "s1")
	s.delivered.Store(5)
	hint := func(ep string, offset int64) store.Hint {
		return store.Hint{Incarnation: ep, Head: store.Position{Offset: offset, Stamp: "z"}}
	}
	if s.knows(hint("ep", 3)) {
		t.Error("a session without incarnation knows something")
	}
	s.bound.Store("ep")
	for _, h := range []store.Hint{hint("ep", 5), hint("ep", 4)} {
		if !s.knows(h) {
			t.Errorf("%+v has been delivered", h)
		}
	}
	for _, h := range []store.Hint{hint("ep", 6), hint("other", 3), hint("", 3)} {
		if s.knows(h) {
			t.Errorf("%+v is new", h)
		}
	}
}

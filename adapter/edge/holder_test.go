package edge

import (
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// followed is a client with a saved record.
func (e *env) followed() (*client, *socket) {
	e.t.Helper()
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
	s := e.core.sockets.all()[0]
	eventually(e.t, "the record is saved", func() bool { return e.touched(s) == store.OK && !s.saving() })
	return c, s
}

func (s *socket) saving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save.busy
}

func (e *env) touched(s *socket) store.Code {
	e.t.Helper()
	code, err := e.core.backend.Load().store.TouchConn(e.t.Context(), s.pid, s.holder, time.Minute)
	if err != nil {
		e.t.Fatal(err)
	}
	return code
}

// claimed lets another node take the record over.
func (e *env) claimed(s *socket) {
	e.t.Helper()
	code, _, err := e.core.backend.Load().store.ClaimConn(e.t.Context(), s.pid, s.user, "other-node/1", time.Minute)
	if err != nil || code != store.OK {
		e.t.Fatalf("claim: %v %v", code, err)
	}
}

// H29: whoever finds at a save or at a touch that the record has another holder
// closes its connection.
func TestLostHolderH29(t *testing.T) {
	t.Run("at a save", func(t *testing.T) {
		e := start(t, nil)
		c, s := e.followed()
		e.claimed(s)
		c.emit("resume", `{"session_id":"another"}`)
		c.awaitClose()
	})
	t.Run("at a touch", func(t *testing.T) {
		e := start(t, nil)
		c, s := e.followed()
		e.claimed(s)
		s.touch()
		c.awaitClose()
	})
}

// A record that the store has lost is written again.
func TestLostRecordIsWrittenAgain(t *testing.T) {
	e := start(t, nil)
	_, s := e.followed()
	if err := e.core.backend.Load().store.DropConn(t.Context(), s.pid, s.holder); err != nil {
		t.Fatal(err)
	}
	if got := e.touched(s); got != store.None {
		t.Fatalf("dropped record: %v", got)
	}
	s.touch()
	eventually(t, "the record is back", func() bool { return e.touched(s) == store.OK })
}

// A client may be back before the record of its lost connection was saved at all:
// its recovery waits for that.
func TestBackBeforeTheRecordIsSaved(t *testing.T) {
	e := start(t, nil)
	k := &e.core.keeper
	k.mu.Lock()
	k.workers += maxKeepers // all of them busy
	k.mu.Unlock()
	script := e.script("hello")
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	c.drop()
	eventually(t, "the loss is noticed", func() bool { return e.core.sockets.count() == 0 })
	if e.core.sockets.byPID(c.pid) == nil {
		t.Error("the holder is forgotten before its record is saved")
	}
	freed := make(chan struct{})
	go func() {
		defer close(freed)
		k.mu.Lock()
		k.workers -= maxKeepers
		s := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.mu.Unlock()
		k.push(s)
	}()
	n := c.again(e.server.URL, aliceToken)
	<-freed
	if n.sid != c.sid {
		t.Errorf("sid %s, want %s", n.sid, c.sid)
	}
	script.stream(n, "hello", "2")
	close(script["hello"])
	n.next("run.completed")
	n.drop()
	eventually(t, "the holder is forgotten after its last save", func() bool { return e.core.sockets.byPID(c.pid) == nil })
}

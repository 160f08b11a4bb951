package edge

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// R9: a run may end within the window; its ending reaches the client before the
// connection is closed.
func TestDrainLetsRunsEndR9(t *testing.T) {
	e := start(t, nil)
	watcher, idle := e.client(aliceToken), e.client(bobToken)
	watcher.run("s1", "q1", "[[hold]]")
	watcher.next("message.delta")
	e.holding(1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		e.core.Drain(ctx)
		if ctx.Err() != nil {
			t.Error("the window was used up")
		}
	}()
	idle.awaitClose() // whoever waits for nothing goes first
	e.gw.Release()
	watcher.next("run.completed")
	watcher.awaitClose()
	<-drained
}

// R9: what does not end in time fails with its text kept, is told, and the whole
// ends within the window.
func TestDrainCutsRunsR9(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q1", "[[hold]]")
	c.next("message.delta")
	e.holding(1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	e.core.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the window was used up")
	}
	if r := c.next("run.failed"); r.text("error") == "" {
		t.Errorf("run.failed %v", r.payload)
	}
	c.awaitClose()

	next := &env{t: t, gw: e.gw, settings: e.settings}
	next.serve(NewCore(e.core.Key(), Deps{}))
	next.attach(e.settings)
	r := next.client(aliceToken).resume("s1")
	messages := r.payload["messages"].([]any)
	if len(messages) != 2 || messages[1].(map[string]any)["content"] == "" {
		t.Errorf("resumed %v", r.payload)
	}
}

func TestDrainIsIdempotent(t *testing.T) {
	e := start(t, nil)
	clients := []*client{e.client(aliceToken), e.client(bobToken), e.client(rootToken)}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { e.core.Drain(ctx) })
	}
	all.Wait()
	e.core.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the window was used up")
	}
	for _, c := range clients {
		c.awaitClose()
	}
	if got := e.core.Status(); got != "draining" {
		t.Errorf("status %q", got)
	}
	_, _, err := e.core.Sessions().ListSessions(ctx, &auth.Principal{User: "alice"}, engine.ListQuery{Limit: 1})
	if err == nil {
		t.Error("sessions are listed after the end")
	}
}

// A core that was never attached, as after a mere validation, has nothing to end.
func TestDrainWithoutAttach(t *testing.T) {
	c := NewCore("embedded:none", Deps{})
	if _, err := c.Sessions().Session(t.Context(), &auth.Principal{}, "s"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("session of no engine: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.Drain(ctx)
	if ctx.Err() != nil {
		t.Error("the window was used up")
	}
}

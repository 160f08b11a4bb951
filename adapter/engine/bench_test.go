package engine_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// sinkSocket takes everything and keeps nothing.
type sinkSocket struct {
	id    string
	ended chan struct{}
}

var benchUser = &auth.Principal{User: "bench", Profiles: []string{"default"}}

func (s *sinkSocket) ID() string                 { return s.id }
func (s *sinkSocket) Principal() *auth.Principal { return benchUser }
func (s *sinkSocket) Profile() string            { return "default" }
func (s *sinkSocket) Drained(func())             {}
func (s *sinkSocket) Gone() bool                 { return false }
func (s *sinkSocket) Left(string)                {}
func (s *sinkSocket) Close(engine.CloseReason)   {}
func (s *sinkSocket) Send(e *engine.Event, _ engine.Room) bool {
	if e.Name == "run.completed" {
		close(s.ended)
	}
	return true
}

// flood is an executor that reports n deltas of every session in turn.
type flood struct{ turns chan func(delta string) }

func (x flood) Run(ctx context.Context, _ engine.Turn, sink engine.Sink) engine.Outcome {
	if err := sink.Sending(ctx); err != nil {
		return engine.Outcome{Failed: true, Error: err.Error()}
	}
	sink.Started("resp_0f93e6b1c24d4d7c8a6512be9d04", "in_progress")
	sink.Flush()
	end := make(chan struct{})
	x.turns <- func(delta string) {
		if delta == "" {
			close(end)
			return
		}
		sink.Text(delta)
		sink.Flush()
	}
	<-end
	return engine.Outcome{Output: "done"}
}

// BenchmarkDelta is the way of one delta from the executor to a socket: merged,
// built, logged, rendered, delivered. 200 sessions take turns, as they do in life.
func BenchmarkDelta(b *testing.B) {
	for _, kind := range []string{"memory", "embedded"} {
		b.Run(kind, func(b *testing.B) { benchmarkDelta(b, benchStore(b, kind)) })
	}
}

func benchStore(b *testing.B, kind string) store.Store {
	if kind == "memory" {
		return memory.New(memory.Options{})
	}
	st, err := embedded.Open(embedded.Options{Path: filepath.Join(b.TempDir(), "bench.db"), Logger: zap.NewNop()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { st.Close() })
	return st
}

func benchmarkDelta(b *testing.B, st store.Store) {
	const sessions = 200
	x := flood{turns: make(chan func(string))}
	e := engine.New(engine.Config{
		Store: st, Node: "n1", Logger: zap.NewNop(),
		Executors: func(string) (string, engine.Executor, error) { return "gateway", x, nil },
		Profiles:  func() []string { return []string{"default"} },
		Limits:    func() engine.Limits { return engine.Limits{} },
	})
	if err := e.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	var sockets []*sinkSocket
	var deltas []func(string)
	for i := range sessions {
		s := &sinkSocket{id: fmt.Sprint("c", i), ended: make(chan struct{})}
		sockets = append(sockets, s)
		e.Run(context.Background(), s, encode(map[string]any{"session_id": fmt.Sprint("s", i), "input": "go"}))
		deltas = append(deltas, <-x.turns)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		deltas[i%sessions]("some text of a delta, as models write it, with a few words more")
	}
	b.StopTimer()
	for i, s := range sockets {
		deltas[i]("")
		<-s.ended
	}
}

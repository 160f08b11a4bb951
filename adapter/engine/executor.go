package engine

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Executor carries out one run. Implementations live in adapter/executor.
type Executor interface {
	// Run blocks until the upstream is terminal or ctx ends, reports what happens to
	// sink, and returns the one outcome of the run. It calls sink.Sending
	// immediately before the upstream request is written and gives up if that
	// fails. When ctx ends it stops the upstream and returns promptly.
	Run(ctx context.Context, turn Turn, sink Sink) Outcome
}

// Turn is what an executor needs to know of a run.
type Turn struct {
	SessionID    string
	RunKey       string // never repeats; sent upstream as idempotency id where one exists
	Profile      string
	Input        chatrun.Input
	Instructions string
	History      []chatrun.HistoryMessage
	Model        string // as asked by the client
	Provider     string
}

// Sink receives the events of a run, in their true order. Its methods are called
// from the goroutine of Run; they may wait for the store and never fail: when the
// run has been lost to another node, ctx of Run ends.
//
// What is reported may be held back until Flush, so that events that come together
// leave together. An executor calls Flush whenever it has nothing more at hand and
// is about to wait for its upstream.
type Sink interface {
	Flush()
	// Sending records durably that the upstream may have been called from here on.
	// An error means that the call must not be made.
	Sending(ctx context.Context) error
	// Refused takes Sending back: the upstream has certainly not taken the request.
	Refused(ctx context.Context) error
	// Started reports that the upstream has accepted the run under a wire id.
	Started(runID, status string)
	// Notice shows a line of status, for example a wait for a full gateway.
	Notice(kind, text string)
	Text(delta string)
	Reasoning(delta string)
	ToolStarted(t ToolStart)
	ToolCompleted(t ToolEnd)
	// CallRecorded and ResultRecorded keep a call or a result that was only found in
	// the final answer: it enters the transcript without an event.
	CallRecorded(t ToolStart)
	ResultRecorded(t ToolEnd)
}

// ToolStart is a tool call that began.
type ToolStart struct {
	ID        string
	Name      string
	Arguments string // JSON text
}

// ToolEnd is a tool call that ended.
type ToolEnd struct {
	ID       string
	Output   string
	Error    bool
	Duration time.Duration // 0: measured by the engine
}

// Outcome is how a run ended upstream.
type Outcome struct {
	Failed bool
	Error  string // Failed: one redacted line for users
	Output string // final text as the upstream reports it; used if nothing was streamed
	Usage  store.Usage
	Model  string
	// Discard: the streamed text is not an answer but the failure itself; it does
	// not enter the transcript.
	Discard bool
	// Stopped: the upstream is known to work no longer on the run, because it said
	// so or because it was never called. Matters only for a run that was aborted.
	Stopped bool
}

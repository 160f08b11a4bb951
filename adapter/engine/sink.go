package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of what one run may produce (contract section 10).
const (
	runTextBytes    = 16 << 20
	toolOutputBytes = 1 << 20
	openToolLimit   = 256
)

// Reasons stored in finish_reason of assistant rows.
const (
	finishStop      = "stop"
	finishToolCalls = "tool_calls"
	finishAborted   = "aborted"
	finishError     = "error"
)

// sink turns what an executor reports into log entries and rows. It is used by
// the executor's goroutine only.
type sink struct {
	r     *runner
	bytes int // text so far
	tools []openTool
	any   bool // a tool has been called
	// recorded holds the names of calls that were found only in the final answer
	recorded map[string]string
	began    time.Time
	first    bool // the first delta has come
}

type openTool struct {
	ToolStart
	started time.Time
}

// Sending is the write-ahead of contract 5.2: acknowledged before the upstream
// request is written.
func (k *sink) Sending(ctx context.Context) error {
	if err := k.r.e.settled(ctx); err != nil {
		return err
	}
	if err := k.patch(ctx, store.Patch{Phase: store.PhaseSent}); err != nil {
		return err
	}
	if err := k.r.out.fresh(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Refused goes back to the phase in which the run may be sent (again).
func (k *sink) Refused(ctx context.Context) error {
	return k.patch(ctx, store.Patch{Phase: store.PhaseStarting})
}

func (k *sink) patch(ctx context.Context, p store.Patch) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := k.r.out.flushWith(p); err != nil {
		return err
	}
	if err := k.r.out.drained(ctx); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// Flush implements Sink.
func (k *sink) Flush() { k.r.out.flush() }

// Started implements Sink.
func (k *sink) Started(runID, status string) {
	k.r.wireID = runID
	k.r.out.patch = store.Patch{Phase: store.PhaseRunning, WireID: runID}
	k.r.out.add(pending{kind: pendingEvent, event: store.NewEntry{
		Kind: store.KindStarted, Name: chatrun.EventRunStarted,
		Payload: chatrun.RunStarted(k.r.s.sid, runID, status),
	}})
}

// Notice implements Sink.
func (k *sink) Notice(kind, text string) {
	k.event(chatrun.EventAgentEvent, chatrun.AgentEvent(k.r.s.sid, k.r.wireID, kind, text), nil)
	k.Flush()
}

func (k *sink) event(name string, payload []byte, rows []store.NewRow) {
	k.r.out.add(pending{
		kind: pendingEvent, rows: rows, seal: name == chatrun.EventToolStarted,
		event: store.NewEntry{Kind: store.KindEvent, Name: name, Payload: payload},
	})
}

// Text implements Sink.
func (k *sink) Text(delta string) { k.streamText(pendingText, delta) }

// Reasoning implements Sink.
func (k *sink) Reasoning(delta string) { k.streamText(pendingReasoning, delta) }

func (k *sink) streamText(kind pendingKind, delta string) {
	if delta == "" {
		return
	}
	if !k.first {
		k.first = true
		k.r.e.cfg.Metrics.FirstDelta(time.Since(k.began))
	}
	if k.bytes += len(delta); k.bytes > runTextBytes {
		k.r.cancel(errTooLong)
		return
	}
	k.r.out.addText(kind, delta)
}

// ToolStarted implements Sink. The text before the call becomes a row, then the
// call (chat-run 4.1, CR-35).
func (k *sink) ToolStarted(t ToolStart) {
	k.any = true
	if len(k.tools) >= openToolLimit {
		k.r.cancel(errTooManyTools)
		return
	}
	if strings.TrimSpace(t.Arguments) == "" {
		t.Arguments = "{}"
	}
	k.tools = append(k.tools, openTool{ToolStart: t, started: time.Now()})
	k.event(chatrun.EventToolStarted,
		chatrun.ToolStarted(k.r.s.sid, k.r.wireID, t.ID, t.Name, t.Arguments), []store.NewRow{callRow(t)})
}

// CallRecorded implements Sink.
func (k *sink) CallRecorded(t ToolStart) {
	k.any = true
	k.recorded[t.ID] = t.Name
	k.r.out.add(pending{kind: pendingRows, seal: true, rows: []store.NewRow{callRow(t)}})
}

// ResultRecorded implements Sink.
func (k *sink) ResultRecorded(t ToolEnd) {
	k.r.out.add(pending{kind: pendingRows, rows: []store.NewRow{resultRow(t, k.recorded[t.ID])}})
}

func callRow(t ToolStart) store.NewRow {
	return store.NewRow{Role: store.RoleAssistant, Data: chatrun.RowData{
		Role: string(store.RoleAssistant), FinishReason: finishToolCalls,
		ToolCalls: []chatrun.ToolCall{{ID: t.ID, Type: "function", Function: chatrun.ToolFunction{Name: t.Name, Arguments: t.Arguments}}},
	}.Encode()}
}

func resultRow(t ToolEnd, name string) store.NewRow {
	return store.NewRow{Role: store.RoleTool, Data: chatrun.RowData{
		Role: string(store.RoleTool), Content: t.Output, ToolCallID: t.ID, ToolName: name, ToolError: t.Error,
	}.Encode()}
}

// ToolCompleted implements Sink. A result without a known call is shown and kept
// all the same: it may be all that is left of the call.
func (k *sink) ToolCompleted(t ToolEnd) {
	name, seconds := "", -1.0
	if open, ok := k.takeTool(t.ID); ok {
		name, seconds = open.Name, time.Since(open.started).Seconds()
	}
	if t.Duration > 0 {
		seconds = t.Duration.Seconds()
	}
	k.endTool(t, name, seconds)
}

// takeTool takes an open call out of those that are open.
func (k *sink) takeTool(id string) (openTool, bool) {
	i := slices.IndexFunc(k.tools, func(t openTool) bool { return t.ID == id })
	if i < 0 {
		return openTool{}, false
	}
	t := k.tools[i]
	k.tools = slices.Delete(k.tools, i, i+1)
	return t, true
}

func (k *sink) endTool(t ToolEnd, name string, seconds float64) {
	if len(t.Output) > toolOutputBytes {
		t.Output = strings.ToValidUTF8(t.Output[:toolOutputBytes], "") + "\n[output cut]"
	}
	k.event(chatrun.EventToolCompleted,
		chatrun.ToolCompleted(k.r.s.sid, k.r.wireID, t.ID, name, t.Output, seconds, t.Error), []store.NewRow{resultRow(t, name)})
}

// closeTools ends what the upstream has left open: no tool spins for ever (GW-24,
// RUN-07).
func (k *sink) closeTools() {
	for _, t := range k.tools {
		k.endTool(ToolEnd{ID: t.ID, Output: "Interrupted: the run ended before this tool reported a result", Error: true},
			t.Name, time.Since(t.started).Seconds())
	}
	k.tools = nil
}

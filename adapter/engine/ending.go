package engine

import (
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// endingOf makes the ending of a run from the transcript, for a watcher whose log
// entry of it cannot be read any more: one ending per watcher in every case. It
// answers nil if the run has not ended or is not known.
func (e *Engine) endingOf(ctx context.Context, sid, run string) *Event {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	head, err := e.head(ctx, sid)
	if err != nil || !head.Exists() || head.Run.Run == run {
		return nil
	}
	_, rows, _, err := e.cfg.Store.Rows(ctx, sid, head.Generation, 0, snapshotRows, snapshotBytes)
	if err != nil {
		e.log.Warn("transcript not readable for an ending", zap.String("session", sid), zap.Error(err))
		return nil
	}
	return endingFromRows(sid, run, rows, tokensOf(head.Usage), head.QueueLength)
}

func endingFromRows(sid, run string, rows []store.Row, tokens chatrun.Tokens, queued int) *Event {
	end := chatrun.Ending{Output: textOf(rows, run), Tokens: tokens}
	en := store.Entry{QueueLength: queued}
	switch lastReason(rows, run) {
	case finishAborted:
		en.NewEntry = store.NewEntry{Name: chatrun.EventAbortCompleted, Payload: chatrun.AbortCompleted(sid, "", false)}
	case finishStop:
		en.NewEntry = store.NewEntry{Name: chatrun.EventRunCompleted, Payload: chatrun.RunCompleted(sid, end)}
	default:
		end.Error = "The run has ended; its details are no longer available"
		en.NewEntry = store.NewEntry{Name: chatrun.EventRunFailed, Payload: chatrun.RunFailed(sid, end)}
	}
	return renderEnd(&en)
}

// assistantRows calls f for each assistant row of a run.
func assistantRows(rows []store.Row, run string, f func(chatrun.RowData)) {
	for _, r := range rows {
		if r.Run != run || r.Role != store.RoleAssistant {
			continue
		}
		if row, err := chatrun.DecodeRow(r.Data); err == nil {
			f(row)
		}
	}
}

// textOf is the text a run has put into the transcript.
func textOf(rows []store.Row, run string) string {
	var b strings.Builder
	assistantRows(rows, run, func(row chatrun.RowData) { b.WriteString(row.Content) })
	return b.String()
}

// lastReason is how the last assistant row of a run ended.
func lastReason(rows []store.Row, run string) (reason string) {
	assistantRows(rows, run, func(row chatrun.RowData) { reason = row.FinishReason })
	return reason
}

// tokensOf renders the usage of a session.
func tokensOf(u store.Usage) chatrun.Tokens {
	return chatrun.Tokens{Input: u.Input, Output: u.Output, Context: u.Context}
}

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
	var texts []string
	reason := ""
	for _, r := range rows {
		row, err := chatrun.DecodeRow(r.Data)
		if r.Run != run || err != nil || row.Role != string(store.RoleAssistant) {
			continue
		}
		if row.Content != "" {
			texts = append(texts, row.Content)
		}
		reason = row.FinishReason
	}
	end := chatrun.Ending{Output: strings.Join(texts, ""), Tokens: tokens}
	en := store.Entry{QueueLength: queued}
	switch reason {
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

// tokensOf renders the usage of a session.
func tokensOf(u store.Usage) chatrun.Tokens {
	return chatrun.Tokens{Input: u.Input, Output: u.Output, Context: u.Context}
}

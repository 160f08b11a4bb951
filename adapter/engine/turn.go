package engine

import (
	"context"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of the history sent with a turn: what is older is left out.
const (
	historyPage  = 500
	historyBytes = 4 << 20
)

// outputFormat asks the model for references that front-ends can show (chat-run
// 9.6).
const outputFormat = "When the answer refers to an image, video or file on this machine, write a Markdown image or link " +
	"with its absolute path (Windows paths with forward slashes, in angle brackets), so that it can be shown."

func instructions(asked string) string {
	if asked == "" {
		return outputFormat
	}
	return outputFormat + "\n\n" + asked
}

// history reads the transcript before a row, newest pages first, within bounds
// (CR-90: the new message is not in it).
func (e *Engine) history(ctx context.Context, sid string, before int64) ([]chatrun.HistoryMessage, error) {
	for {
		head, err := e.head(ctx, sid)
		if err != nil {
			return nil, err
		}
		rows, stale, err := e.historyRows(ctx, sid, head.Generation, before)
		if err != nil {
			return nil, err
		}
		if !stale {
			return chatrun.History(rows), nil
		}
	}
}

func (e *Engine) historyRows(ctx context.Context, sid string, gen, before int64) (rows []chatrun.RowData, stale bool, err error) {
	var pages [][]store.Row
	for size := 0; size < historyBytes; {
		code, page, more, err := e.cfg.Store.Rows(ctx, sid, gen, before, historyPage, historyBytes-size)
		if err != nil || code == store.Stale {
			return nil, code == store.Stale, err
		}
		for _, r := range page {
			size += len(r.Data)
		}
		pages = append(pages, page)
		if !more || len(page) == 0 {
			break
		}
		before = page[0].ID
	}
	slices.Reverse(pages)
	for _, page := range pages {
		for _, r := range page {
			if data, err := chatrun.DecodeRow(r.Data); err == nil {
				rows = append(rows, data)
			}
		}
	}
	return rows, false, nil
}

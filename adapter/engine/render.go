package engine

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// render makes the wire event of a log entry: numbers known only at commit are
// added here, and queue entries, which hold ids, get their contents.
func (s *session) render(en *store.Entry) *Event {
	switch en.Kind {
	case store.KindStarted:
		return &Event{Name: en.Name, Payload: chatrun.WithNumber(en.Payload, "queue_length", int64(en.QueueLength))}
	case store.KindEnd:
		return renderEnd(en)
	case store.KindQueue:
		s.queue.observe(en)
		queue := s.queuedMessages(en.QueueIDs)
		return &Event{Name: chatrun.EventRunQueued, Payload: chatrun.RunQueued(s.sid, queue, en.Dequeued)}
	case store.KindPeer:
		row, err := chatrun.DecodeRow(en.Payload)
		if err != nil {
			s.logger().Error("user row in the log is not readable", zap.Error(err))
			return nil
		}
		return &Event{Name: chatrun.EventPeerMessage, Payload: chatrun.PeerMessage(s.sid, row.Message(en.Row, s.sid, en.Time))}
	default:
		if en.Name == "" || len(en.Payload) == 0 {
			return nil
		}
		return &Event{Name: en.Name, Payload: en.Payload}
	}
}

// renderEnd adds how many items wait, the one about to start included: as
// queue_remaining, or for an aborted run as queue_length if one follows (CR-67).
func renderEnd(en *store.Entry) *Event {
	switch {
	case en.Name != chatrun.EventAbortCompleted:
		return &Event{Name: en.Name, Payload: chatrun.WithNumber(en.Payload, "queue_remaining", int64(en.QueueLength))}
	case en.QueueLength > 0:
		return &Event{Name: en.Name, Payload: chatrun.WithNumber(en.Payload, "queue_length", int64(en.QueueLength))}
	default:
		return &Event{Name: en.Name, Payload: en.Payload}
	}
}

// queueCache holds the contents of waiting items by queue id.
type queueCache map[string]chatrun.QueuedMessage

// observe forgets what does not wait any more.
func (c queueCache) observe(en *store.Entry) {
	if en.Kind != store.KindQueue || len(c) == 0 {
		return
	}
	waiting := make(map[string]bool, len(en.QueueIDs))
	for _, id := range en.QueueIDs {
		waiting[id] = true
	}
	for id := range c {
		if !waiting[id] {
			delete(c, id)
		}
	}
}

// queuedMessages renders waiting items in order; one that is nowhere any more was
// cancelled meanwhile and is left out.
func (s *session) queuedMessages(ids []string) []chatrun.QueuedMessage {
	out := make([]chatrun.QueuedMessage, 0, len(ids))
	for _, id := range ids {
		if m, ok := s.queue[id]; ok {
			out = append(out, m)
		}
	}
	return out
}

// fetchQueued reads the contents of waiting items that entries speak of and that are
// not known here, before any of the entries is delivered.
func (s *session) fetchQueued(ctx context.Context, entries []store.Entry) error {
	if len(s.members) == 0 {
		return nil
	}
	var missing []string
	for i := range entries {
		for _, id := range entries[i].QueueIDs {
			if _, ok := s.queue[id]; !ok && !slices.Contains(missing, id) {
				missing = append(missing, id)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := s.e.cfg.Store.QueuedRows(ctx, s.sid, missing)
	if err != nil {
		return fmt.Errorf("queued messages: %w", err)
	}
	for id, row := range rows {
		if m, ok := queuedMessage(id, row.Data, row.Time); ok {
			s.queue[id] = m
		}
	}
	return nil
}

func queuedMessage(id string, data []byte, ms int64) (chatrun.QueuedMessage, bool) {
	row, err := chatrun.DecodeRow(data)
	if err != nil {
		return chatrun.QueuedMessage{}, false
	}
	return chatrun.QueuedMessage{ID: id, Role: row.Role, Content: row.Content, Timestamp: ms / 1000, Queued: true}, true
}

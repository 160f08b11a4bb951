package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Limits of one ReadLog answer (contract 4.2).
const (
	readEntries = 256
	readBytes   = 512 << 10
)

// Snapshot implements store.Log.
func (st *Store) Snapshot(ctx context.Context, sid string) (store.Snapshot, error) {
	s, err := st.read(ctx, sid)
	if err != nil || s == nil {
		return store.Snapshot{Session: store.Session{SID: sid}}, err
	}
	now := st.Now()
	s.mu.RLock()
	defer s.mu.RUnlock()
	snap := store.Snapshot{Session: s.view(now, st.opts.SingleProcess)}
	if !s.exists() {
		return snap, nil
	}
	snap.Checkpoint, snap.Covered = s.checkpoint, s.Head.Offset
	if s.Run != "" {
		snap.Covered = s.Covered
		snap.Entries = entriesAfter(s.log, s.Covered)
	}
	for _, q := range s.queue {
		snap.Queue = append(snap.Queue, *q.item)
	}
	return snap, nil
}

// entriesAfter returns the entries with an offset above o. They share memory
// with the log, which is never written in place.
func entriesAfter(log []store.Entry, o int64) []store.Entry {
	if len(log) == 0 {
		return nil
	}
	i := max(0, min(int(o+1-log[0].Offset), len(log)))
	return log[i:len(log):len(log)]
}

// ReadLog implements store.Log.
func (st *Store) ReadLog(ctx context.Context, sid, incarnation string, after store.Position, limit int) (store.ReadResult, error) {
	s, err := st.read(ctx, sid)
	if err != nil {
		return store.ReadResult{}, err
	}
	if s == nil {
		return store.ReadResult{Code: store.Diverged, Head: store.Origin}, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	res := store.ReadResult{Code: store.Diverged, Head: s.Head}
	switch {
	case s.Incarnation == "" || s.Incarnation != incarnation || after.Offset > s.Head.Offset || after.Offset < 0:
		return res, nil
	case after.Offset == s.Head.Offset:
		if after.Stamp == s.Head.Stamp {
			res.Code = store.OK
		}
		return res, nil
	}
	entries := entriesAfter(s.log, after.Offset)
	if len(entries) == 0 || entries[0].Offset != after.Offset+1 {
		res.Code = store.Behind
		return res, nil
	}
	if entries[0].Prev != after.Stamp {
		return res, nil
	}
	res.Code, res.Entries = store.OK, page(entries, limit)
	return res, nil
}

// page cuts entries to what one answer may hold, at least one, and before a break
// of the chain: what is behind it does not follow for a reader from before it.
func page(entries []store.Entry, limit int) []store.Entry {
	if limit <= 0 || limit > readEntries {
		limit = readEntries
	}
	size := 0
	for i := range entries {
		size += entryBytes(&entries[i])
		if i == limit || i > 0 && (size > readBytes || entries[i].Prev != entries[i-1].Stamp) {
			return entries[:i:i]
		}
	}
	return entries
}

// Rows implements store.Log.
func (st *Store) Rows(ctx context.Context, sid string, gen, before int64, limit, maxBytes int) (store.Code, []store.Row, bool, error) {
	s, err := st.read(ctx, sid)
	if err != nil {
		return "", nil, false, err
	}
	if s == nil {
		return store.Stale, nil, false, nil
	}
	s.mu.RLock()
	ok, last := s.exists() && s.Generation == gen, s.LastRow
	s.mu.RUnlock()
	if !ok {
		return store.Stale, nil, false, nil
	}
	if before <= 0 || before > last+1 {
		before = last + 1
	}
	rows, more, err := st.rowsBefore(ctx, s, before, limit, maxBytes)
	if err != nil {
		return "", nil, false, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.exists() || s.Generation != gen {
		return store.Stale, nil, false, nil
	}
	return store.OK, rows, more, nil
}

// rowsBefore reads rows with an id below before: the newest from memory, older
// ones from the journal. Rows may move from one to the other meanwhile, never
// back, so that memory is read first.
func (st *Store) rowsBefore(ctx context.Context, s *session, before int64, limit, maxBytes int) ([]store.Row, bool, error) {
	s.mu.RLock()
	held := s.rows
	s.mu.RUnlock()
	end := len(held)
	for end > 0 && held[end-1].ID >= before {
		end--
	}
	from, size := end, 0
	for from > 0 && end-from < limit {
		size += len(held[from-1].Data)
		if size > maxBytes && from < end {
			return held[from:end:end], true, nil
		}
		from--
	}
	rows := held[from:end:end]
	if st.opts.Journal == nil || from > 0 {
		return rows, from > 0, nil
	}
	if len(held) > 0 {
		before = min(before, held[0].ID)
	}
	if len(rows) > 0 && (size >= maxBytes || len(rows) == limit) {
		older, _, err := st.opts.Journal.Rows(ctx, s.sid, before, 1, 1)
		return rows, len(older) > 0, err
	}
	older, more, err := st.opts.Journal.Rows(ctx, s.sid, before, limit-len(rows), maxBytes-size)
	if err != nil {
		return nil, false, loadError(err)
	}
	return append(older, rows...), more, nil
}

package redisstore

import (
	"context"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Snapshot implements store.Log.
func (st *Store) Snapshot(ctx context.Context, sid string) (store.Snapshot, error) {
	r, err := st.session(ctx, "snapshot", sid)
	if err != nil {
		return store.Snapshot{}, err
	}
	alive, record := r.bool(), r.list()
	snap := store.Snapshot{}
	if snap.Session, err = toSession(sid, alive, record); err != nil || !snap.Session.Exists() {
		return snap, err
	}
	snap.Checkpoint, snap.Covered = r.bytes(), snap.Session.Head.Offset
	if snap.Entries, err = toEntries(r.list()); err != nil {
		return store.Snapshot{}, err
	}
	if snap.Session.Run.Run != "" {
		snap.Covered = number(fields(record)["kc"])
	}
	for _, v := range r.list() {
		l, _ := v.([]any)
		if it := toItem(l); it != nil {
			snap.Queue = append(snap.Queue, *it)
		}
	}
	return snap, nil
}

// Rows implements store.Log.
func (st *Store) Rows(ctx context.Context, sid string, gen, before int64, limit, maxBytes int) (store.Code, []store.Row, bool, error) {
	r, err := st.session(ctx, "rows", sid, gen, before, limit, maxBytes)
	if err != nil {
		return "", nil, false, err
	}
	if r.Code != store.OK {
		return r.Code, nil, false, nil
	}
	l := r.list()
	rows := make([]store.Row, len(l))
	for i, v := range l {
		if rows[i], err = toRow(v); err != nil {
			return "", nil, false, err
		}
	}
	slices.Reverse(rows)
	return store.OK, rows, r.bool(), nil
}

// ReadLog implements store.Log.
func (st *Store) ReadLog(ctx context.Context, sid, incarnation string, after store.Position, limit int) (store.ReadResult, error) {
	if limit <= 0 || limit > readEntries {
		limit = readEntries
	}
	r, err := st.session(ctx, "read_log", sid, incarnation, after.Offset, after.Stamp, limit)
	if err != nil {
		return store.ReadResult{}, err
	}
	res := store.ReadResult{Code: r.Code, Head: r.position()}
	entries, err := toEntries(r.list())
	res.Entries = chained(entries)
	return res, err
}

// chained leaves out what stands behind a break of the chain. Who reads on from
// there is told that the position is of another log.
func chained(entries []store.Entry) []store.Entry {
	for i := 1; i < len(entries); i++ {
		if entries[i].Prev != entries[i-1].Stamp {
			return entries[:i]
		}
	}
	return entries
}

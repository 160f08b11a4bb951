package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// SaveConn implements store.Connections.
func (st *Store) SaveConn(ctx context.Context, r store.ConnRecord, ttl time.Duration) (store.Code, error) {
	rooms, err := json.Marshal(r.Rooms)
	if err != nil {
		return "", fmt.Errorf("%w: encode connection record: %w", store.ErrUnavailable, err)
	}
	return st.code(st.call(ctx, "conn_save", []string{st.connKey(r.PID)},
		r.Holder, ttl.Milliseconds(), r.User, r.Profile, r.CID, rooms))
}

// TouchConn implements store.Connections.
func (st *Store) TouchConn(ctx context.Context, pid, holder string, ttl time.Duration) (store.Code, error) {
	return st.code(st.call(ctx, "conn_touch", []string{st.connKey(pid)}, holder, max(1, ttl.Milliseconds())))
}

// ClaimConn implements store.Connections.
func (st *Store) ClaimConn(ctx context.Context, pid, user, holder string, ttl time.Duration) (store.Code, store.ConnRecord, error) {
	r, err := st.call(ctx, "conn_claim", []string{st.connKey(pid)}, user, holder, ttl.Milliseconds())
	if err != nil {
		return "", store.ConnRecord{}, err
	}
	if r.Code != store.OK {
		return r.Code, store.ConnRecord{}, nil
	}
	p := r.part()
	was := store.ConnRecord{PID: pid, User: p.str(), Profile: p.str(), CID: p.str(), Holder: p.str()}
	if err := json.Unmarshal(p.bytes(), &was.Rooms); err != nil {
		return "", store.ConnRecord{}, fmt.Errorf("%w: decode connection record: %w", store.ErrUnavailable, err)
	}
	return store.OK, was, nil
}

// DropConn implements store.Connections.
func (st *Store) DropConn(ctx context.Context, pid, holder string) error {
	_, err := st.call(ctx, "conn_touch", []string{st.connKey(pid)}, holder, 0)
	return err
}

package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Arm implements store.WorkIndex.
func (st *Store) Arm(ctx context.Context, sid string, delay time.Duration) error {
	if err := checkSID(sid); err != nil {
		return err
	}
	_, err := st.call(ctx, "arm", []string{st.indexKey(sid)}, escape(sid), delay.Milliseconds())
	return err
}

// Due implements store.WorkIndex. It begins with another key each time, so that
// none of them is looked at last for ever. In a cluster the keys stand on several
// nodes; what one of them does not answer is left out as long as another does.
func (st *Store) Due(ctx context.Context, n int) ([]store.Due, error) {
	keys := st.indexKeys()
	first := rand.IntN(len(keys))
	keys = append(keys[first:], keys[:first]...)
	if st.opts.Mode != Cluster {
		return st.due(ctx, keys, n)
	}
	var all []store.Due
	var errs []error
	for _, k := range keys {
		if len(all) >= n {
			break
		}
		due, err := st.due(ctx, []string{k}, n-len(all))
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, due...)
	}
	if len(errs) == len(keys) {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

func (st *Store) due(ctx context.Context, keys []string, n int) ([]store.Due, error) {
	r, err := st.call(ctx, "due", keys, n, store.ClaimTime.Milliseconds())
	if err != nil {
		return nil, err
	}
	l := r.list()
	due := make([]store.Due, 0, len(l))
	for _, v := range l {
		p := &reply{}
		p.values, _ = v.([]any)
		sid, err := unescape(p.str())
		if err != nil || checkSID(sid) != nil {
			continue // not written by us; it stays five seconds ahead
		}
		due = append(due, store.Due{SID: sid, Score: p.int(), Parked: p.bool()})
	}
	return due, nil
}

// Rescore implements store.WorkIndex.
func (st *Store) Rescore(ctx context.Context, d store.Due, delay time.Duration, parked bool) error {
	_, err := st.call(ctx, "rescore", []string{st.indexKey(d.SID)}, escape(d.SID), d.Score, 0, delay.Milliseconds(), flag(parked))
	return err
}

// Disarm implements store.WorkIndex.
func (st *Store) Disarm(ctx context.Context, d store.Due) error {
	_, err := st.call(ctx, "rescore", []string{st.indexKey(d.SID)}, escape(d.SID), d.Score, 1, 0, 0)
	return err
}

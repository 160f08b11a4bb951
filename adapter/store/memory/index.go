package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// index is the work index (contract 5.11).
type index struct {
	mu      sync.Mutex
	members map[string]member
}

type member struct {
	due    int64
	parked bool
}

// Arm implements store.WorkIndex. It changes the score in every case, so that a
// sweeper that looked at the session before this call cannot park or remove the
// member afterwards.
func (st *Store) Arm(_ context.Context, sid string, delay time.Duration) error {
	if err := st.open(); err != nil {
		return err
	}
	if err := checkSID(sid); err != nil {
		return err
	}
	x := &st.index
	due := st.Now() + delay.Milliseconds()
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.members[sid]; ok {
		due = min(due, old.due-1)
	}
	x.members[sid] = member{due: due}
	return nil
}

// Due implements store.WorkIndex.
func (st *Store) Due(_ context.Context, n int) ([]store.Due, error) {
	if err := st.open(); err != nil {
		return nil, err
	}
	x := &st.index
	now := st.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	var due []store.Due
	for sid, m := range x.members {
		if m.due <= now {
			due = append(due, store.Due{SID: sid, Score: m.due, Parked: m.parked})
		}
	}
	slices.SortFunc(due, func(a, b store.Due) int {
		if a.Score != b.Score {
			return int(a.Score - b.Score)
		}
		return strings.Compare(a.SID, b.SID)
	})
	due = due[:min(n, len(due))]
	for i := range due {
		due[i].Score = now + store.ClaimTime.Milliseconds()
		x.members[due[i].SID] = member{due: due[i].Score, parked: due[i].Parked}
	}
	return due, nil
}

// Rescore implements store.WorkIndex.
func (st *Store) Rescore(_ context.Context, d store.Due, delay time.Duration, parked bool) error {
	return st.seen(d, func(x *index) {
		x.members[d.SID] = member{due: st.Now() + delay.Milliseconds(), parked: parked}
	})
}

// Disarm implements store.WorkIndex.
func (st *Store) Disarm(_ context.Context, d store.Due) error {
	return st.seen(d, func(x *index) { delete(x.members, d.SID) })
}

// seen runs do if the member is still as the caller saw it.
func (st *Store) seen(d store.Due, do func(*index)) error {
	if err := st.open(); err != nil {
		return err
	}
	x := &st.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if m, ok := x.members[d.SID]; ok && m.due == d.Score {
		do(x)
	}
	return nil
}

// Armed reports when a session is due, for tests of the index's promise that no
// work waits without a member.
func (st *Store) Armed(sid string) (due int64, ok bool) {
	x := &st.index
	x.mu.Lock()
	defer x.mu.Unlock()
	m, ok := x.members[sid]
	return m.due, ok
}

// open refuses a closed store.
func (st *Store) open() error {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if st.closed {
		return errClosed
	}
	return nil
}

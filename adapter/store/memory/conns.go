package memory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxConnections bounds the connection records of a store; sweepPause is the time
// between two searches for those that have run out, in milliseconds.
const (
	maxConnections = 1 << 18
	sweepPause     = 1000
)

// conns keeps connection records by the hash of their private id.
type conns struct {
	mu      sync.Mutex
	records map[string]connection
	limit   int
	sweepAt int   // number of records at which those that ran out are looked for
	swept   int64 // when that was done last
}

type connection struct {
	record  store.ConnRecord
	expires int64
}

func hashed(pid string) string {
	sum := sha256.Sum256([]byte(pid))
	return string(sum[:])
}

// get returns a record that has not run out.
func (c *conns) get(key string, now int64) (connection, bool) {
	r, ok := c.records[key]
	if ok && now >= r.expires {
		delete(c.records, key)
		return connection{}, false
	}
	return r, ok
}

// room makes sure that one more record fits.
func (c *conns) room(now int64) bool {
	if len(c.records) >= max(c.sweepAt, 1024) && now >= c.swept+sweepPause {
		c.swept = now
		for key, r := range c.records {
			if now >= r.expires {
				delete(c.records, key)
			}
		}
		c.sweepAt = min(2*len(c.records), c.limit)
	}
	return len(c.records) < c.limit
}

// SaveConn implements store.Connections.
func (st *Store) SaveConn(_ context.Context, r store.ConnRecord, ttl time.Duration) (store.Code, error) {
	if err := st.open(); err != nil {
		return "", err
	}
	c, now, key := &st.conns, st.Now(), hashed(r.PID)
	r.PID = ""
	r.Rooms = slices.Clone(r.Rooms)
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.get(key, now)
	if ok && old.record.Holder != r.Holder {
		return store.Taken, nil
	}
	if !ok && !c.room(now) {
		return "", fmt.Errorf("%w: too many connection records", store.ErrUnavailable)
	}
	c.records[key] = connection{r, now + ttl.Milliseconds()}
	return store.OK, nil
}

// TouchConn implements store.Connections.
func (st *Store) TouchConn(_ context.Context, pid, holder string, ttl time.Duration) (store.Code, error) {
	if err := st.open(); err != nil {
		return "", err
	}
	c, now, key := &st.conns, st.Now(), hashed(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.get(key, now)
	switch {
	case !ok:
		return store.None, nil
	case r.record.Holder != holder:
		return store.Taken, nil
	}
	r.expires = now + ttl.Milliseconds()
	c.records[key] = r
	return store.OK, nil
}

// ClaimConn implements store.Connections.
func (st *Store) ClaimConn(_ context.Context, pid, user, holder string, ttl time.Duration) (store.Code, store.ConnRecord, error) {
	if err := st.open(); err != nil {
		return "", store.ConnRecord{}, err
	}
	c, now, key := &st.conns, st.Now(), hashed(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.get(key, now)
	switch {
	case !ok:
		return store.None, store.ConnRecord{}, nil
	case r.record.User != user:
		return store.Forbidden, store.ConnRecord{}, nil
	}
	was := r.record
	was.PID = pid
	was.Rooms = slices.Clone(was.Rooms)
	r.record.Holder = holder
	r.expires = now + ttl.Milliseconds()
	c.records[key] = r
	return store.OK, was, nil
}

// DropConn implements store.Connections.
func (st *Store) DropConn(_ context.Context, pid, holder string) error {
	if err := st.open(); err != nil {
		return err
	}
	c, key := &st.conns, hashed(pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.records[key]; ok && r.record.Holder == holder {
		delete(c.records, key)
	}
	return nil
}

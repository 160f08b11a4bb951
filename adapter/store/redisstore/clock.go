package redisstore

import (
	"sync"
	"time"
)

// clock follows the store's time. A reply to a call that was sent at a and
// answered at b bounds the difference to our monotonic clock from both sides, so
// that a slow reply never moves the clock. Our time is never ahead of the store's.
type clock struct {
	origin time.Time

	mu     sync.Mutex
	offset int64 // store time at origin, Unix microseconds
	known  bool
}

func newClock() *clock {
	now := time.Now()
	return &clock{origin: now, offset: now.UnixMicro()}
}

// observe takes the store's time from a reply.
func (c *clock) observe(sent time.Time, at int64) {
	if at <= 0 {
		return
	}
	most := (at+1)*1000 - sent.Sub(c.origin).Microseconds()
	least := at*1000 - time.Since(c.origin).Microseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.offset, c.known = least, true
	}
	c.offset = max(least, min(most, c.offset))
}

// now is the store's time: the local clock's until the store has answered once.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.offset + time.Since(c.origin).Microseconds()) / 1000
}

package edge

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/socketio"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times and bounds of keeping connection records.
const (
	touchInterval = time.Minute
	recordTimeout = 2 * time.Second // of one store operation
	maxKeepers    = 8
)

// keeper writes connection records. Senders must not wait for the store, so they
// leave a socket here; a few goroutines, which exist only while there is work,
// save it. A socket waits here once at most.
type keeper struct {
	core *Core

	mu      sync.Mutex
	waiting []*socket
	workers int
}

func (k *keeper) init(c *Core) { k.core = c }

// push hands a socket over.
func (k *keeper) push(s *socket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting = append(k.waiting, s)
	if k.workers < maxKeepers && k.core.work.run(k.work) {
		k.workers++
	}
}

func (k *keeper) work() {
	for {
		k.mu.Lock()
		if len(k.waiting) == 0 {
			k.workers--
			k.waiting = nil
			k.mu.Unlock()
			return
		}
		s := k.waiting[0]
		k.waiting[0] = nil
		k.waiting = k.waiting[1:]
		k.mu.Unlock()
		k.save(s)
	}
}

// saveState is a socket's side of the keeping; the socket's lock guards it.
type saveState struct {
	busy    bool // waits in the keeper, or is being saved
	again   bool // changed meanwhile
	last    bool // the next save is the last one
	drop    bool // and it removes the record
	settled chan struct{}
	at      time.Time // of the last save or touch that the store acknowledged
}

// saveSoonLocked has the record saved.
func (s *socket) saveSoonLocked() {
	if s.pid == "" {
		return
	}
	if s.save.busy {
		s.save.again = true
		return
	}
	s.save.busy = true
	s.core.keeper.push(s)
}

// saveLastLocked has the record saved for the last time, or dropped.
func (s *socket) saveLastLocked(keep bool) {
	s.save.last, s.save.drop = true, !keep
	s.save.settled = make(chan struct{})
	if s.pid == "" {
		close(s.save.settled)
		return
	}
	s.saveSoonLocked()
}

// settled waits until the last save of a retired socket is done.
func (s *socket) settled(ctx context.Context) error {
	s.mu.Lock()
	done := s.save.settled
	s.mu.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// save brings the record of s up to date, once.
func (k *keeper) save(s *socket) {
	s.mu.Lock()
	last, drop := s.save.last, s.save.drop
	s.save.again = false
	record := store.ConnRecord{
		PID: s.pid, User: s.user, Profile: s.profile, CID: s.id, Holder: s.holder, Rooms: s.track.record(),
	}
	s.mu.Unlock()

	code, err := k.write(record, last, drop)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && code == store.OK {
		s.track.saved(record.Rooms)
		s.save.at = time.Now()
	}
	taken := err == nil && code == store.Taken && !s.retired
	switch {
	case last:
		s.core.sockets.settle(s)
		close(s.save.settled)
		s.save.busy = false
	case s.save.again || s.save.last:
		k.push(s)
	default:
		s.save.busy = false
	}
	if taken { // the client is connected elsewhere: whatever is sent here reaches nobody
		s.disconnect(socketio.ReasonMoved)
	}
}

func (k *keeper) write(record store.ConnRecord, last, drop bool) (store.Code, error) {
	b := k.core.backend.Load()
	if b == nil {
		return "", store.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(k.core.life, recordTimeout)
	defer cancel()
	var code store.Code
	var err error
	if last && (drop || len(record.Rooms) == 0) {
		code, err = store.OK, b.store.DropConn(ctx, record.PID, record.Holder)
	} else {
		code, err = b.store.SaveConn(ctx, record, k.core.recordTTL(last))
	}
	if err != nil && ctx.Err() == nil {
		// Positions are saved again with the next pong; until then the token in each
		// packet names them.
		k.core.log.Debug("connection record not saved", zap.Error(err))
	}
	return code, err
}

// recordTTL is how long a record lives without another word of its connection.
func (c *Core) recordTTL(last bool) time.Duration {
	g := c.gen.Load()
	if g == nil {
		return 0
	}
	t := g.settings.Timeouts
	if last {
		return t.Recovery
	}
	return t.PingInterval + t.PingTimeout + t.Recovery
}

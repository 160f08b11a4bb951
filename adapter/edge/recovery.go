package edge

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// claimTimeout bounds the taking over of a connection record: a slow store costs a
// client its recovery, never its connection.
const claimTimeout = 2 * time.Second

// holderSeparator stands between node and connection in the holder of a record.
const holderSeparator = "/"

// maxPID is the longest private id that is looked up, in bytes.
const maxPID = 64

// restore makes s the continuation of the connection that the client names, if
// there is one and it was the same user's (contract section 6). The client has been
// authenticated before. False: s is a fresh socket.
func (c *Core) restore(ctx context.Context, s *socket, ask connectRequest) bool {
	if ask.pid == "" || len(ask.pid) > maxPID || ask.offset == "" {
		return false
	}
	tok, ok := parseToken(ask.pid, ask.offset)
	if !ok {
		return false
	}
	b := c.backend.Load()
	if b == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	if !c.kick(ctx, ask.pid, s.user) {
		return false
	}
	code, record, err := b.store.ClaimConn(ctx, ask.pid, s.user, s.holder, c.recordTTL(false))
	if err != nil || code != store.OK {
		if err != nil {
			c.log.Debug("connection record not claimed", zap.Error(err))
		}
		return false
	}
	c.notifyHolder(ctx, b, record)
	s.pid, s.id = ask.pid, record.CID
	if s.profile == "" && s.Principal().MayUse(record.Profile) {
		s.profile = record.Profile
	}
	s.track.prefix = pidPrefix(ask.pid)
	s.recover = s.track.restore(record.Rooms, tok)
	return true
}

// kick closes the connection of this node that still holds the record, half open
// or not (H29), once its record is up to date. False: it is somebody else's.
func (c *Core) kick(ctx context.Context, pid, user string) bool {
	old := c.sockets.byPID(pid)
	if old == nil {
		return true
	}
	if old.user != user {
		return false
	}
	old.retire(true)
	c.sockets.remove(old)
	if e := c.engine(); e != nil {
		e.Leave(old)
	}
	old.disconnect(socketio.ReasonMoved)
	return old.settled(ctx) == nil
}

// notifyHolder tells another node that its connection is continued here, so that it
// closes it soon (H29). Its saves are refused in any case.
func (c *Core) notifyHolder(ctx context.Context, b *backend, record store.ConnRecord) {
	node, _, _ := strings.Cut(record.Holder, holderSeparator)
	if b.shared == nil || node == c.node {
		return
	}
	if err := b.shared.Notify(ctx, node, store.Notice{Kind: store.NoticeKick, Subject: record.CID}); err != nil {
		c.log.Debug("node not told that its connection is continued here", zap.String("node", node), zap.Error(err))
	}
}

// continueRooms sends what the client missed in its rooms, in record order. The
// engine authorises each room, and falls back to a snapshot where the log has gone.
func (c *Core) continueRooms(s *socket) {
	rooms := s.recover
	s.recover = nil
	e := c.engine()
	if e == nil {
		return
	}
	for _, r := range rooms {
		e.Recover(c.life, s, r)
	}
}

// awaitRoom has the session that an event asks for in the connection's record while
// the event is handled (contract 6). The function it answers takes it out again if
// the client did not come to follow the session.
func (s *socket) awaitRoom(payload json.RawMessage) (done func()) {
	req, ok := chatrun.ParseSession(payload)
	if !ok {
		return func() {}
	}
	s.change(func() bool { return s.track.reserve(req.SessionID) })
	return func() { s.change(func() bool { return s.track.unreserve(req.SessionID) }) }
}

// change has the record saved if f says that it is out of date.
func (s *socket) change(f func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != "" && !s.retired && f() {
		s.saveSoonLocked()
	}
}

// pingSent marks what the coming pong confirms.
func (s *socket) pingSent() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.track.ping()
}

// pongReceived confirms what was sent before the ping, and keeps the record alive.
func (s *socket) pongReceived() {
	s.mu.Lock()
	moved := s.track.pong()
	due := s.pid != "" && len(s.track.rooms) > 0 && time.Since(s.save.at) >= touchInterval
	if moved && !s.retired {
		s.saveSoonLocked()
		due = false
	}
	due = due && !s.retired && !s.save.busy
	s.mu.Unlock()
	if due {
		s.touch()
	}
}

// touch prolongs the record; it runs on the socket's own goroutine.
func (s *socket) touch() {
	b := s.core.backend.Load()
	if b == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.core.life, recordTimeout)
	defer cancel()
	code, err := b.store.TouchConn(ctx, s.pid, s.holder, s.core.recordTTL(false))
	switch {
	case err != nil:
		s.core.log.Debug("connection record not prolonged", zap.Error(err))
	case code == store.Taken:
		s.disconnect(socketio.ReasonMoved)
	case code == store.None: // the store lost it
		s.mu.Lock()
		if !s.retired {
			s.saveSoonLocked()
		}
		s.mu.Unlock()
	default:
		s.mu.Lock()
		s.save.at = time.Now()
		s.mu.Unlock()
	}
}

// checkHolder has a socket of this node ask whether its client is connected
// elsewhere now, as another node says (contract section 6). The record decides: a
// notice may be late.
func (c *Core) checkHolder(cid string) {
	if s := c.sockets.byID(cid); s != nil && s.pid != "" {
		s.touch()
	}
}

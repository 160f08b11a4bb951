package engineio

import (
	"net"
	"time"

	"github.com/gobwas/ws"
)

// carries reports whether s is the transport of the connection.
func (c *Conn) carries(s *socketConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transport == WebSocket && c.ws == s
}

// offer makes s the candidate for an upgrade, if there is none yet. That
// happens before the handshake is answered: what the client sends next may
// overtake this goroutine.
func (c *Conn) offer(s *socketConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateOpen && c.transport == Polling && c.poll.candidate == nil {
		c.poll.candidate = s
	}
}

// attach gives s its network connection and reports whether it is the candidate.
func (c *Conn) attach(s *socketConn, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.conn = conn
	if c.state != stateOpen || c.poll == nil || c.poll.candidate != s {
		return false
	}
	s.limit = time.AfterFunc(c.opts.UpgradeTimeout, func() { _ = conn.Close() })
	return true
}

// probed answers the probe and releases the poll that was open before it, so
// that an idle client can go on. A poll that came later is held for a moment:
// the upgrade packet may be right behind it.
func (c *Conn) probed(s *socketConn) bool {
	c.mu.Lock()
	if c.state != stateOpen || c.poll == nil || c.poll.candidate != s {
		c.mu.Unlock()
		return s.fail(ReasonParseError)
	}
	s.probed = true
	if w := c.poll.waiting; w != nil && !w.held {
		c.poll.answerLocked(pollAnswer{last: typeNoop})
	}
	c.mu.Unlock()
	s.armWrite()
	frame := appendMessageHeader(nil, &Message{Data: []byte("probe"), typ: typePong})
	if _, err := s.conn.Write(append(frame, "probe"...)); err != nil {
		_ = s.conn.Close()
	}
	return true
}

// upgraded moves the connection to s. A poll still held is refused.
func (c *Conn) upgraded(s *socketConn) bool {
	c.mu.Lock()
	if c.state != stateOpen || c.poll == nil || c.poll.candidate != s || !s.probed {
		c.mu.Unlock()
		return s.fail(ReasonParseError)
	}
	s.limit.Stop()
	c.poll.answerLocked(pollAnswer{refuse: true})
	c.transport, c.ws, c.poll = WebSocket, s, nil
	if c.queue != nil {
		c.wakeLocked()
	}
	c.mu.Unlock()
	c.opts.Observer.ConnectionUpgraded()
	return true
}

// candidateGone forgets a candidate; the connection goes on polling.
func (c *Conn) candidateGone(s *socketConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.limit != nil {
		s.limit.Stop()
	}
	if c.poll != nil && c.poll.candidate == s {
		c.poll.candidate = nil
	}
}

// closeSocketLocked starts the closing handshake of a WebSocket transport.
// Of a peer that is gone it returns the network connection instead, to be
// closed without the lock.
func (c *Conn) closeSocketLocked(reason Reason, peerGone bool) net.Conn {
	s := c.ws
	if peerGone {
		return s.conn
	}
	now := time.Now()
	wait := c.opts.WriteTimeout
	if reason.abrupt() {
		wait = closeWait
		_ = s.conn.SetWriteDeadline(now.Add(wait))
	}
	_ = s.conn.SetReadDeadline(now.Add(wait + closeWait))
	if !c.flushing {
		c.flushing = true
		c.srv.group.Add(1)
		go c.flush()
	}
	return nil
}

// acceptAndClose completes a WebSocket handshake only to end it: clients learn
// more from a close frame than from a failed handshake.
func (s *socketConn) acceptAndClose() {
	defer s.c.srv.group.Done()
	s.abandon(ws.StatusPolicyViolation)
	s.drain()
}

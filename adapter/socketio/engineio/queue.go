package engineio

import (
	"sync"

	"github.com/gobwas/ws"
)

// batch is a recycled slice of queued messages: an idle connection holds none.
type batch struct{ msgs []Message }

const (
	batchSize    = 16
	maxBatchKept = 256
)

var batches = sync.Pool{New: func() any { return &batch{msgs: make([]Message, 0, batchSize)} }}

func releaseBatch(b *batch) {
	if cap(b.msgs) > maxBatchKept {
		return
	}
	clear(b.msgs)
	b.msgs = b.msgs[:0]
	batches.Put(b)
}

// Send queues messages that belong together: all or none, and nothing between
// them. It never waits.
func (c *Conn) Send(ms ...Message) error {
	c.mu.Lock()
	err := c.admitLocked(ms)
	if err == nil {
		c.enqueueLocked(ms...)
	}
	c.mu.Unlock()
	if err == ErrBufferFull {
		c.opts.Observer.SlowConsumer(SlowRefused)
	}
	return err
}

// SendControl is Send past the limit, for what the protocol cannot do without.
// A client that lets twice the limit pile up is closed.
func (c *Conn) SendControl(ms ...Message) error {
	c.mu.Lock()
	if c.state != stateOpen {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.queued > 2*c.opts.SendBuffer {
		c.mu.Unlock()
		c.opts.Observer.SlowConsumer(SlowClosed)
		c.close(ReasonSlowConsumer, false)
		return ErrClosed
	}
	c.enqueueLocked(ms...)
	c.mu.Unlock()
	return nil
}

func (c *Conn) admitLocked(ms []Message) error {
	if c.state != stateOpen {
		return ErrClosed
	}
	cost := 0
	for i := range ms {
		cost += ms[i].cost()
	}
	// Whoever was told that there is room again gets a message of any size in: what
	// is larger than the whole buffer would otherwise have to be tried for ever.
	if !c.drainedLocked() && c.queued+cost > c.opts.SendBuffer {
		return ErrBufferFull
	}
	return nil
}

// Buffered is the number of bytes queued and not yet given to the network,
// with a small allowance for each message.
func (c *Conn) Buffered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued
}

// OnDrain calls f once, soon, when less than half of the send buffer is in
// use, or when the connection ends. f must not block; it may be called before
// OnDrain returns. The caller keeps to one registration at a time.
func (c *Conn) OnDrain(f func()) {
	c.mu.Lock()
	if c.state != stateOpen || c.drainedLocked() {
		c.mu.Unlock()
		f()
		return
	}
	c.drains = append(c.drains, f)
	c.mu.Unlock()
}

func (c *Conn) drainedLocked() bool { return c.queued < (c.opts.SendBuffer+1)/2 }

// sentLocked accounts for written bytes and returns who waits for room.
func (c *Conn) sentLocked(n int) []func() {
	c.queued -= n
	if len(c.drains) == 0 || !c.drainedLocked() {
		return nil
	}
	drains := c.drains
	c.drains = nil
	return drains
}

func (c *Conn) enqueueLocked(ms ...Message) {
	if c.queue == nil {
		c.queue = batches.Get().(*batch)
	}
	for _, m := range ms {
		c.queue.msgs = append(c.queue.msgs, m)
		c.queued += m.cost()
	}
	c.wakeLocked()
}

// takeLocked hands over all that is queued; it still counts as queued.
func (c *Conn) takeLocked() (*batch, int) {
	b := c.queue
	c.queue = nil
	n := 0
	if b != nil {
		for i := range b.msgs {
			n += b.msgs[i].cost()
		}
	}
	return b, n
}

func (c *Conn) dropQueueLocked() {
	if b, n := c.takeLocked(); b != nil {
		c.queued -= n
		releaseBatch(b)
	}
}

// wakeLocked sees to it that the queue is written soon.
func (c *Conn) wakeLocked() {
	if c.transport == Polling {
		c.poll.wakeLocked(c)
		return
	}
	if !c.flushing {
		c.flushing = true
		c.srv.group.Add(1)
		go c.flush()
	}
}

// handOverWriting ends the handshake's turn as the writer.
func (c *Conn) handOverWriting() {
	c.mu.Lock()
	c.flushing = false
	switch {
	case c.state == stateClosing:
		c.flushing = true
		c.srv.group.Add(1)
		go c.flush()
	case c.queue != nil:
		c.wakeLocked()
	}
	c.mu.Unlock()
}

const (
	writeChunk  = 32 << 10
	largeData   = 16 << 10
	bufferStart = 4 << 10
)

var writeBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, bufferStart)
	return &b
}}

// flush is the writer of a WebSocket connection. It exists only while there is
// something to write.
func (c *Conn) flush() {
	defer c.srv.group.Done()
	buf := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(buf)
	for {
		c.mu.Lock()
		b, n := c.takeLocked()
		pong := c.ws.takePong()
		closing, reason := c.state == stateClosing, c.reason
		if b == nil && pong == nil && !closing {
			c.flushing = false
			c.mu.Unlock()
			return
		}
		sock := c.ws
		c.mu.Unlock()

		err := sock.writeBatch(buf, b, pong)
		if b != nil {
			c.opts.Observer.PacketsSent(len(b.msgs), n)
			releaseBatch(b)
		}
		c.mu.Lock()
		drains := c.sentLocked(n)
		c.mu.Unlock()
		for _, f := range drains {
			f()
		}
		if err != nil {
			c.writeFailed(sock, err)
			return
		}
		if closing {
			sock.sendClose(buf, reason.Code())
			return // flushing stays set: nothing may follow a close frame
		}
	}
}

// writeFailed ends a connection that cannot be written to.
func (c *Conn) writeFailed(sock *socketConn, err error) {
	reason := ReasonTransportError
	if isTimeout(err) {
		reason = ReasonSlowConsumer
		c.opts.Observer.SlowConsumer(SlowClosed)
	}
	_ = sock.conn.Close()
	c.close(reason, true)
}

// writeBatch writes messages as frames, many in one write.
func (s *socketConn) writeBatch(buf *[]byte, b *batch, pong *[]byte) error {
	s.armWrite()
	out := (*buf)[:0]
	defer func() { *buf = out[:0] }()
	if pong != nil {
		out = appendControl(out, ws.OpPong, *pong)
	}
	if b != nil {
		for i := range b.msgs {
			m := &b.msgs[i]
			out = appendMessageHeader(out, m)
			if len(m.Data) < largeData {
				out = append(out, m.Data...)
			} else if err := s.writeLarge(&out, m.Data); err != nil {
				return err
			}
			out = append(out, m.Tail...)
			if len(out) >= writeChunk {
				if err := s.writeAll(&out); err != nil {
					return err
				}
			}
		}
	}
	return s.writeAll(&out)
}

// writeLarge writes what has gathered and then data itself, without a copy.
func (s *socketConn) writeLarge(out *[]byte, data []byte) error {
	if err := s.writeAll(out); err != nil {
		return err
	}
	_, err := s.conn.Write(data)
	s.armWrite()
	return err
}

func (s *socketConn) writeAll(out *[]byte) error {
	if len(*out) == 0 {
		return nil
	}
	_, err := s.conn.Write(*out)
	*out = (*out)[:0]
	return err
}

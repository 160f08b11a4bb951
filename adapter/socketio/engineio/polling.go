package engineio

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"
)

const (
	// holdPoll is how long a poll that arrives during an upgrade waits for it.
	holdPoll = 100 * time.Millisecond
	// lingerServer and lingerClient are how long a closed polling session waits
	// for the poll that tells the client so.
	lingerServer = 5 * time.Second
	lingerClient = time.Second
)

// pollState is what a connection needs only while it is polling. It is
// guarded by the lock of its connection.
type pollState struct {
	waiting   *waiter
	candidate *socketConn
	posting   bool
	last      byte // packet that ends the session at the next poll, 0 = none
	linger    *time.Timer
}

// waiter is an open poll.
type waiter struct {
	answer chan pollAnswer
	held   bool // came during an upgrade
}

// pollAnswer is what an open poll is answered with.
type pollAnswer struct {
	batch  *batch
	size   int
	last   byte // packet after the batch, 0 = none
	refuse bool
	final  bool // the session is over
}

// answerLocked answers the open poll, if there is one.
func (p *pollState) answerLocked(a pollAnswer) bool {
	if p.waiting == nil {
		return false
	}
	p.waiting.answer <- a // has room for the one answer
	p.waiting = nil
	return true
}

// wakeLocked gives what is queued to an open poll.
func (p *pollState) wakeLocked(c *Conn) {
	if p.waiting == nil || c.queue == nil {
		return
	}
	b, n := c.takeLocked()
	p.answerLocked(pollAnswer{batch: b, size: n})
}

// closePollingLocked ends a polling session: an open poll is told at once,
// otherwise the next one if it comes soon.
// It returns a network connection that the caller closes without the lock.
func (c *Conn) closePollingLocked(reason Reason) (abandoned net.Conn) {
	p := c.poll
	if p.candidate != nil {
		abandoned = p.candidate.conn
	}
	last, linger := byte(typeClose), lingerServer
	if reason == ReasonTransportClose {
		last, linger = typeNoop, lingerClient
	}
	if p.waiting != nil {
		b, n := c.takeLocked()
		p.answerLocked(pollAnswer{batch: b, size: n, last: last, final: true})
		linger = 0
	} else if reason.abrupt() && reason != ReasonTransportClose {
		linger = 0
	}
	p.last = last
	if linger == 0 {
		c.state = stateClosed
		c.dropQueueLocked()
		c.srv.forget(c)
		return abandoned
	}
	p.linger = time.AfterFunc(linger, c.finish)
	return abandoned
}

// servePoll is a GET of a polling session.
func (c *Conn) servePoll(w http.ResponseWriter, r *http.Request) {
	w8, answer, fail := c.openPoll()
	switch {
	case fail != nil:
		fail.write(w)
	case w8 == nil:
		c.writePoll(w, answer)
	default:
		c.writePoll(w, c.awaitPoll(r, w8))
	}
}

// openPoll answers at once what can be, or opens a poll.
func (c *Conn) openPoll() (*waiter, pollAnswer, *httpError) {
	c.mu.Lock()
	p := c.poll
	switch {
	case c.state == stateClosed:
		c.mu.Unlock()
		return nil, pollAnswer{}, errUnknownSID
	case p == nil:
		c.mu.Unlock()
		return nil, pollAnswer{}, errBadRequest
	case c.state == stateClosing && p.last == 0:
		c.mu.Unlock()
		return nil, pollAnswer{}, errUnknownSID
	case c.state == stateClosing:
		b, n := c.takeLocked()
		a := pollAnswer{batch: b, size: n, last: p.last, final: true}
		p.linger.Stop()
		c.mu.Unlock()
		c.finish()
		return nil, a, nil
	case c.overdueLocked(time.Now()):
		c.mu.Unlock()
		c.close(ReasonPingTimeout, false)
		return nil, pollAnswer{}, errUnknownSID
	case p.waiting != nil:
		c.mu.Unlock()
		c.close(ReasonTransportError, false)
		return nil, pollAnswer{}, errBadRequest
	}
	defer c.mu.Unlock()
	if c.queue != nil {
		b, n := c.takeLocked()
		return nil, pollAnswer{batch: b, size: n}, nil
	}
	p.waiting = &waiter{answer: make(chan pollAnswer, 1), held: p.candidate != nil}
	return p.waiting, pollAnswer{}, nil
}

// awaitPoll waits for the answer to an open poll.
func (c *Conn) awaitPoll(r *http.Request, w8 *waiter) pollAnswer {
	var hold <-chan time.Time
	if w8.held {
		t := time.NewTimer(holdPoll)
		defer t.Stop()
		hold = t.C
	}
	select {
	case a := <-w8.answer:
		return a
	case <-hold:
	case <-c.srv.pollsEnded:
	case <-r.Context().Done():
		c.mu.Lock()
		open := c.poll != nil && c.poll.waiting == w8
		c.mu.Unlock()
		if open {
			c.close(ReasonTransportError, false)
		}
		return <-w8.answer
	}
	c.mu.Lock()
	if c.poll != nil && c.poll.waiting == w8 {
		c.poll.answerLocked(pollAnswer{last: typeNoop})
	}
	c.mu.Unlock()
	return <-w8.answer
}

// writePoll writes the answer to a poll.
func (c *Conn) writePoll(w http.ResponseWriter, a pollAnswer) {
	if a.refuse {
		errBadRequest.write(w)
		return
	}
	buf := writeBuffers.Get().(*[]byte)
	body := (*buf)[:0]
	if a.batch != nil {
		for i := range a.batch.msgs {
			body = appendPayload(body, &a.batch.msgs[i])
		}
		c.opts.Observer.PacketsSent(len(a.batch.msgs), a.size)
		releaseBatch(a.batch)
	}
	if a.last != 0 {
		body = appendPayload(body, &Message{typ: a.last})
	}
	err := writeBody(w, "text/plain; charset=UTF-8", body, c.opts.WriteTimeout)
	if cap(body) <= 2*writeChunk {
		*buf = body[:0]
		writeBuffers.Put(buf)
	}
	c.mu.Lock()
	drains := c.sentLocked(a.size)
	c.mu.Unlock()
	for _, f := range drains {
		f()
	}
	if err != nil {
		c.close(ReasonTransportError, false)
	}
}

// writeBody writes a whole answer within the timeout. The deadline is lifted
// afterwards: the next poll on the same network connection may wait for long.
func writeBody(w http.ResponseWriter, contentType string, body []byte, timeout time.Duration) error {
	rc := http.NewResponseController(w)
	armed := rc.SetWriteDeadline(time.Now().Add(timeout)) == nil
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	_, err := w.Write(body)
	if err == nil {
		if err = rc.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	if armed {
		_ = rc.SetWriteDeadline(time.Time{})
	}
	return err
}

// servePost is a POST of a polling session.
func (c *Conn) servePost(w http.ResponseWriter, r *http.Request) {
	if fail := c.beginPost(); fail != nil {
		fail.write(w)
		return
	}
	body, fail := c.readPost(w, r)
	if fail == nil {
		err := decodePayload(body, func(p packet) error {
			if !c.receive(p) && p.typ != typeClose {
				return ErrClosed
			}
			return nil
		})
		if err != nil {
			c.close(ReasonParseError, false)
			fail = errBadRequest
		}
	}
	c.mu.Lock()
	if c.poll != nil {
		c.poll.posting = false
	}
	c.mu.Unlock()
	if fail != nil {
		fail.write(w)
		return
	}
	_ = writeBody(w, "text/html", []byte("ok"), c.opts.WriteTimeout) // the client sees a broken connection itself
}

func (c *Conn) beginPost() *httpError {
	c.mu.Lock()
	switch {
	case c.state != stateOpen:
		c.mu.Unlock()
		return errUnknownSID
	case c.poll == nil:
		c.mu.Unlock()
		return errBadRequest
	case c.overdueLocked(time.Now()):
		c.mu.Unlock()
		c.close(ReasonPingTimeout, false)
		return errUnknownSID
	case c.poll.posting:
		c.mu.Unlock()
		c.close(ReasonTransportError, false)
		return errBadRequest
	}
	c.poll.posting = true
	c.mu.Unlock()
	return nil
}

// readPost reads a body within the size limit and the time the client has to
// show that it is alive.
func (c *Conn) readPost(w http.ResponseWriter, r *http.Request) ([]byte, *httpError) {
	if r.ContentLength > c.opts.MaxPayload {
		return nil, c.tooBig(r.ContentLength)
	}
	rc := http.NewResponseController(w)
	if rc.SetReadDeadline(time.Now().Add(c.opts.PingInterval+c.opts.PingTimeout)) == nil {
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, c.opts.MaxPayload+1))
	if int64(len(body)) > c.opts.MaxPayload {
		return nil, c.tooBig(int64(len(body)))
	}
	var limit *http.MaxBytesError // a stricter limit set by the caller
	if errors.As(err, &limit) {
		return nil, c.tooBig(limit.Limit)
	}
	if err != nil {
		c.close(ReasonTransportError, false)
		return nil, errBadRequest
	}
	return body, nil
}

func (c *Conn) tooBig(size int64) *httpError {
	c.opts.Logger.Info("polling body refused", zap.String("sid", c.id), zap.String("remote", c.remoteAddr),
		zap.Int64("at_least", size), zap.Int64("limit", c.opts.MaxPayload))
	c.close(ReasonTooBig, false)
	return errTooLarge
}

package engineio

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
	"go.uber.org/zap"
)

// closeWait bounds the closing handshake: time for the close frame to get out
// and for the client's answer to come in.
const closeWait = time.Second

// socketConn is the WebSocket under a connection, or one that wants to become it.
type socketConn struct {
	c      *Conn
	conn   net.Conn // nil while the handshake of an upgrade is under way, see attach
	reader frameReader
	pong   *[]byte     // answer to a WebSocket ping, guarded by c.mu
	limit  *time.Timer // ends an upgrade that is not completed, guarded by c.mu
	probed bool        // the client has sent its probe, guarded by c.mu

	// The closing handshake, guarded by c.mu.
	code                ws.StatusCode // close status more exact than the reason's
	closeSent, closeGot bool
}

// init takes over a hijacked connection. Bytes that the HTTP server has read
// ahead come first.
func (s *socketConn) init(conn net.Conn, early *bufio.Reader) {
	var head []byte
	if n := early.Buffered(); n > 0 {
		head, _ = early.Peek(n) // no more than is buffered, so it cannot fail
		head = bytes.Clone(head)
	}
	s.reader.init(conn, head, s.c.opts.MaxPayload)
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func (s *socketConn) armWrite() {
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.c.opts.WriteTimeout))
}

// takePong is called with c.mu held.
func (s *socketConn) takePong() *[]byte {
	p := s.pong
	s.pong = nil
	return p
}

// renewReader is how often at most a reading goroutine is replaced.
const renewReader = time.Second

// run reads frames until the connection ends. It is the one goroutine of an
// idle connection. Handling a message grows its stack for good, so before it
// waits again it makes way for a new one: an idle connection then costs a
// stack of minimal size, and a busy one hardly notices.
func (s *socketConn) run(born time.Time) {
	defer s.c.srv.group.Done()
	for handled := false; ; handled = true {
		if handled && s.reader.idle() {
			if now := time.Now(); now.Sub(born) >= renewReader {
				s.c.srv.group.Add(1)
				go s.run(now)
				return
			}
		}
		m, err := s.reader.next()
		if err != nil {
			s.ended(err)
			return
		}
		if !s.handle(m) {
			break
		}
	}
	s.drain()
}

// handle reports false when the rest of the input is of no interest.
func (s *socketConn) handle(m message) bool {
	switch m.op {
	case ws.OpPing:
		s.answerPing(m.payload)
		return true
	case ws.OpPong:
		return true
	case ws.OpClose:
		return s.peerClosed(m.payload)
	}
	data := m.payload
	if !m.owned {
		data = bytes.Clone(data)
	}
	if m.op == ws.OpBinary {
		return s.packet(packet{typ: typeMessage, binary: true, data: data})
	}
	p, err := decodeText(data)
	if err != nil {
		return s.fail(ReasonParseError)
	}
	return s.packet(p)
}

// packet routes a packet: a probing socket may say only two things.
func (s *socketConn) packet(p packet) bool {
	if s.c.carries(s) {
		return s.c.receive(p)
	}
	switch {
	case p.typ == typePing && string(p.data) == "probe":
		return s.c.probed(s)
	case p.typ == typeUpgrade:
		return s.c.upgraded(s)
	}
	return s.fail(ReasonParseError)
}

// fail ends the connection, or only this socket while it is not the transport.
func (s *socketConn) fail(reason Reason) bool {
	if s.c.carries(s) {
		s.c.close(reason, false)
	} else {
		s.abandon(reason.Code())
	}
	return false
}

// abandon closes a socket that is not (yet) the transport.
func (s *socketConn) abandon(code ws.StatusCode) {
	var buf []byte
	s.armWrite()
	s.sendClose(&buf, code)
}

// answerPing keeps at most one pong waiting, so that pings cannot pile up.
func (s *socketConn) answerPing(payload []byte) {
	c := s.c
	c.mu.Lock()
	if c.state == stateOpen && c.transport == WebSocket && c.ws == s {
		pong := append([]byte(nil), payload...)
		s.pong = &pong
		c.wakeLocked()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	s.armWrite()
	_, _ = s.conn.Write(appendControl(nil, ws.OpPong, payload)) // a dead socket shows at the next read
}

// peerClosed answers a close frame, or takes it as the answer to ours.
func (s *socketConn) peerClosed(payload []byte) bool {
	reason := ReasonTransportClose
	if !validClose(payload) {
		reason = ReasonParseError
	}
	s.closing(func() { s.closeGot = true })
	return s.fail(reason)
}

func validClose(payload []byte) bool {
	if len(payload) < 2 {
		return len(payload) == 0
	}
	code, text := ws.ParseCloseFrameData(payload)
	private := code.IsApplicationSpec() || code.IsPrivateSpec()
	return utf8.ValidString(text) && (private || ws.CheckCloseFrameData(code, text) == nil)
}

// closing records a step of the closing handshake; when both sides have spoken
// the connection is let go.
func (s *socketConn) closing(step func()) {
	s.c.mu.Lock()
	step()
	both := s.closeGot && s.closeSent
	s.c.mu.Unlock()
	if both {
		_ = s.conn.Close()
	}
}

// sendClose writes the close frame and leaves the client a moment to answer:
// closing at once could destroy what is still on its way.
func (s *socketConn) sendClose(buf *[]byte, code ws.StatusCode) {
	s.c.mu.Lock()
	if s.code != 0 {
		code = s.code
	}
	s.c.mu.Unlock()
	var body [2]byte
	ws.PutCloseFrameBody(body[:], code, "")
	*buf = appendControl((*buf)[:0], ws.OpClose, body[:])
	if _, err := s.conn.Write(*buf); err != nil {
		_ = s.conn.Close()
		return
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(closeWait))
	s.closing(func() { s.closeSent = true })
}

// ended is the way out of run after a read error.
func (s *socketConn) ended(err error) {
	var bad *frameError
	if !errors.As(err, &bad) {
		s.gone()
		return
	}
	s.c.opts.Logger.Info("websocket message refused",
		zap.String("sid", s.c.id), zap.String("remote", s.c.remoteAddr), zap.Error(err))
	s.closing(func() { s.code = bad.code })
	s.fail(bad.reason)
	var sink [readBufferSize]byte
	for {
		if _, err := s.conn.Read(sink[:]); err != nil {
			break
		}
	}
	s.gone()
}

// drain reads and discards until the client has answered the close frame or
// its time is over.
func (s *socketConn) drain() {
	for {
		m, err := s.reader.next()
		if err != nil {
			break
		}
		if m.op == ws.OpClose {
			s.closing(func() { s.closeGot = true })
		}
	}
	s.gone()
}

// gone lets go of the network connection and, if it carried it, of the session.
func (s *socketConn) gone() {
	_ = s.conn.Close()
	if !s.c.carries(s) {
		s.c.candidateGone(s)
		return
	}
	s.c.close(ReasonTransportError, true)
	s.c.finish()
}

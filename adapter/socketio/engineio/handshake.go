package engineio

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/zap"
)

// acceptGUID is fixed by RFC 6455, section 1.3.
const acceptGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

func isUpgrade(r *http.Request) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// checkUpgrade validates a WebSocket handshake before anything is answered,
// so that refusals are ordinary HTTP answers.
func checkUpgrade(r *http.Request) *httpError {
	if r.ProtoMajor != 1 {
		return errExtended
	}
	if r.ProtoMinor < 1 {
		return errBadRequest
	}
	if v := r.Header.Values("Sec-WebSocket-Version"); len(v) != 1 || v[0] != "13" {
		return errUpgradeVersion
	}
	keys := r.Header.Values("Sec-WebSocket-Key")
	if len(keys) != 1 {
		return errBadRequest
	}
	if key, err := base64.StdEncoding.DecodeString(keys[0]); err != nil || len(key) != 16 {
		return errBadRequest
	}
	return nil
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// hijack answers 101 through the response writer, so that logs and header
// directives of the HTTP server apply, and takes the connection over. The
// answer may still be in the returned writer's buffer.
func (s *Server) hijack(w http.ResponseWriter, r *http.Request, a Admission) (net.Conn, *bufio.ReadWriter, error) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + acceptGUID))
	h := w.Header()
	h.Set("Upgrade", "websocket")
	h.Set("Connection", "Upgrade")
	h.Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if a.RawConn != nil {
		conn = a.RawConn
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, rw, nil
}

// openSocket opens a connection that starts as a WebSocket.
func (s *Server) openSocket(w http.ResponseWriter, r *http.Request, a Admission, c *Conn) *httpError {
	conn, rw, err := s.hijack(w, r, a)
	if err != nil {
		s.unreserve()
		c.opts.Logger.Warn("websocket handshake failed: the HTTP server does not hand over the connection", zap.Error(err))
		return nil
	}
	if !s.enter() {
		s.unreserve()
		_ = conn.Close()
		return nil
	}
	c.transport = WebSocket
	c.ws = &socketConn{c: c, conn: conn}
	c.ws.init(conn, rw.Reader)
	c.flushing = true // this goroutine is the writer until the open packet is out
	c.receiver = s.onOpen(c)
	c.opts.Observer.ConnectionOpened(WebSocket)
	s.register(c)
	c.ws.armWrite()
	open := c.openPacket()
	_, _ = rw.Write(append(appendFrameHeader(nil, ws.OpText, len(open)), open...)) // Flush reports the error
	if err := rw.Flush(); err != nil {
		_ = conn.Close() // run sees it and cleans up
	}
	c.startHeartbeat()
	c.handOverWriting()
	go c.ws.run(time.Time{})
	return nil
}

// upgrade accepts a WebSocket for a session that is polling. The session must
// know of it before the client can act on the 101.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, a Admission, c *Conn) *httpError {
	if !isUpgrade(r) {
		return errBadRequest
	}
	if fail := checkUpgrade(r); fail != nil {
		return fail
	}
	if !s.enter() {
		return errBusy
	}
	sock := &socketConn{c: c}
	c.offer(sock)
	conn, rw, err := s.hijack(w, r, a)
	if err != nil {
		c.candidateGone(sock)
		s.group.Done()
		c.opts.Logger.Warn("websocket handshake failed: the HTTP server does not hand over the connection", zap.Error(err))
		return nil
	}
	sock.init(conn, rw.Reader)
	offered := c.attach(sock, conn)
	sock.armWrite()
	if err := rw.Flush(); err != nil {
		_ = conn.Close() // the reader sees it and cleans up
	}
	if offered {
		go sock.run(time.Time{})
	} else {
		go sock.acceptAndClose()
	}
	return nil
}

package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

type webSocket struct {
	conn    net.Conn
	stream  io.ReadWriter
	silence time.Duration
	writing sync.Mutex
}

// dialWebSocket opens a connection, or the WebSocket of the connection sid.
func dialWebSocket(ctx context.Context, url, sid string) (*webSocket, error) {
	address := "ws" + strings.TrimPrefix(url, "http") + engine + string(WebSocket)
	if sid != "" {
		address += "&sid=" + sid
	}
	conn, early, _, err := ws.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	reader := bufio.NewReader(conn)
	if early != nil {
		reader = early
	}
	w := &webSocket{conn: conn, silence: dialTimeout, stream: struct {
		io.Reader
		io.Writer
	}{reader, conn}}
	if sid != "" {
		return w, nil
	}
	packet, err := w.Receive()
	if err == nil {
		var h handshake
		if h, err = parseHandshake(packet); err == nil {
			w.silence = h.silence()
			return w, nil
		}
	}
	w.Cut()
	return nil, err
}

func (w *webSocket) Send(packet string) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return wsutil.WriteClientText(w.conn, []byte(packet))
}

func (w *webSocket) Receive() (string, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return "", err
	}
	data, err := wsutil.ReadServerText(w.stream)
	return string(data), err
}

func (w *webSocket) Cut() { _ = w.conn.Close() }

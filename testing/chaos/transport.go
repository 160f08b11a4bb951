package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
)

const (
	dialTimeout   = 5 * time.Second
	writeTimeout  = 5 * time.Second
	maxPollAnswer = 16 << 20
	pollSeparator = "\x1e"
)

// transport carries Engine.IO packets. receive is for one goroutine, send for any.
type transport interface {
	send(packet string) error
	// receive returns the next packet; heartbeats too.
	receive() (string, error)
	// cut breaks the connection without a word.
	cut()
}

// handshake is the Engine.IO open packet.
type handshake struct {
	SID          string `json:"sid"`
	PingInterval int64  `json:"pingInterval"`
	PingTimeout  int64  `json:"pingTimeout"`
}

func parseHandshake(packet string) (handshake, error) {
	var h handshake
	text, ok := strings.CutPrefix(packet, "0")
	if !ok {
		return h, fmt.Errorf("open packet expected, got %.80q", packet)
	}
	err := json.Unmarshal([]byte(text), &h)
	return h, err
}

// silence is how long a server may say nothing.
func (h handshake) silence() time.Duration {
	return time.Duration(h.PingInterval+h.PingTimeout) * time.Millisecond
}

// webSocket is a connection over WebSocket.
type webSocket struct {
	conn    net.Conn
	stream  io.ReadWriter
	silence time.Duration
	writing sync.Mutex
}

func dialWebSocket(ctx context.Context, url string) (*webSocket, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, early, _, err := ws.Dial(ctx, "ws"+strings.TrimPrefix(url, "http")+"/socket.io/?EIO=4&transport=websocket")
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	if early != nil {
		reader = early
	}
	w := &webSocket{conn: conn, silence: dialTimeout, stream: struct {
		io.Reader
		io.Writer
	}{reader, conn}}
	packet, err := w.receive()
	if err == nil {
		var h handshake
		if h, err = parseHandshake(packet); err == nil {
			w.silence = h.silence()
			return w, nil
		}
	}
	w.cut()
	return nil, err
}

func (w *webSocket) send(packet string) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return wsutil.WriteClientText(w.conn, []byte(packet))
}

func (w *webSocket) receive() (string, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return "", err
	}
	data, err := wsutil.ReadServerText(w.stream)
	return string(data), err
}

func (w *webSocket) cut() { _ = w.conn.Close() }

// polling is a connection over long-polling. With several nodes each request goes
// to the next one, as it does behind a load balancer without stickiness.
type polling struct {
	client  *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	nodes   func() string // where the next request goes
	sid     string
	silence time.Duration
	waiting []string // packets received but not yet returned
}

func dialPolling(ctx context.Context, nodes func() string) (*polling, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &polling{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}},
		ctx:    ctx, cancel: cancel, nodes: nodes, silence: dialTimeout,
	}
	packet, err := p.receive()
	if err == nil {
		var h handshake
		if h, err = parseHandshake(packet); err == nil {
			p.sid, p.silence = h.SID, h.silence()
			return p, nil
		}
	}
	p.cut()
	return nil, err
}

func (p *polling) receive() (string, error) {
	for len(p.waiting) == 0 {
		body, err := p.request(http.MethodGet, nil, p.silence)
		if err != nil {
			return "", err
		}
		p.waiting = strings.Split(body, pollSeparator)
	}
	packet := p.waiting[0]
	p.waiting = p.waiting[1:]
	return packet, nil
}

func (p *polling) send(packet string) error {
	_, err := p.request(http.MethodPost, []byte(packet), writeTimeout)
	return err
}

func (p *polling) request(method string, body []byte, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	url := p.nodes() + "/socket.io/?EIO=4&transport=polling"
	if p.sid != "" {
		url += "&sid=" + p.sid
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "text/plain;charset=UTF-8")
	}
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxPollAnswer))
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.80q", response.Status, answer)
	}
	return string(answer), nil
}

func (p *polling) cut() {
	p.cancel()
	p.client.CloseIdleConnections()
}

// errRefused is a namespace that did not let us in.
var errRefused = errors.New("connection refused by the namespace")

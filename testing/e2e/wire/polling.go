package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxPollAnswer = 16 << 20
	separator     = "\x1e"
)

// polling is a connection by long-polling, which may become one by WebSocket.
type polling struct {
	client  *http.Client
	ctx     context.Context
	cancel  context.CancelFunc
	dialer  Dialer
	sid     string
	silence time.Duration
	waiting []string // packets received and not yet returned

	mu       sync.Mutex
	upgraded *webSocket
}

func dialPolling(ctx context.Context, d Dialer) (*polling, error) {
	own, cancel := context.WithCancel(context.Background())
	p := &polling{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext}},
		ctx:    own, cancel: cancel, dialer: d, silence: dialTimeout,
	}
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	packet, err := p.Receive()
	if err == nil {
		var h handshake
		if h, err = parseHandshake(packet); err == nil {
			p.sid, p.silence = h.SID, h.silence()
			return p, nil
		}
	}
	p.Cut()
	return nil, err
}

func (p *polling) webSocket() *webSocket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.upgraded
}

func (p *polling) Receive() (string, error) {
	for len(p.waiting) == 0 {
		if w := p.webSocket(); w != nil {
			return w.Receive()
		}
		body, err := p.request(http.MethodGet, nil, p.silence)
		if err != nil {
			return "", err
		}
		p.waiting = strings.Split(body, separator)
	}
	packet := p.waiting[0]
	p.waiting = p.waiting[1:]
	return packet, nil
}

func (p *polling) Send(packet string) error {
	if w := p.webSocket(); w != nil {
		return w.Send(packet)
	}
	_, err := p.request(http.MethodPost, []byte(packet), writeTimeout)
	return err
}

func (p *polling) request(method string, body []byte, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	url := p.dialer.Node() + engine + string(Polling)
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

// upgrade goes over to WebSocket, with a poll under way as in a browser. It is
// called by the goroutine that receives, while nobody sends.
func (p *polling) upgrade(ctx context.Context) error {
	w, err := dialWebSocket(ctx, p.dialer.Node(), p.sid)
	if err != nil {
		return err
	}
	type answer struct {
		body string
		err  error
	}
	polled := make(chan answer, 1)
	go func() {
		body, err := p.request(http.MethodGet, nil, p.silence)
		polled <- answer{body, err}
	}()
	err = w.Send("2probe")
	if err == nil {
		var packet string
		if packet, err = w.Receive(); err == nil && packet != "3probe" {
			err = fmt.Errorf("the probe was answered with %.80q", packet)
		}
	}
	if err != nil {
		w.Cut()
		p.Cut() // the poll under way belongs to nobody now
		<-polled
		return err
	}
	last := <-polled
	if last.err == nil {
		p.waiting = append(p.waiting, strings.Split(last.body, separator)...)
		last.err = w.Send("5")
	}
	if last.err != nil {
		w.Cut()
		return last.err
	}
	w.silence = p.silence
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upgraded = w
	return nil
}

func (p *polling) Cut() {
	p.cancel()
	if w := p.webSocket(); w != nil {
		w.Cut()
	}
	p.client.CloseIdleConnections()
}

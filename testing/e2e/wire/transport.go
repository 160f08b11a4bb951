package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 5 * time.Second
	engine       = "/socket.io/?EIO=4&transport="
)

// Transport carries Engine.IO packets. Receive is for one goroutine, the other
// methods for any.
type Transport interface {
	Send(packet string) error
	// Receive returns the next packet, heartbeats included. It fails when the server
	// has been silent for longer than the handshake allows.
	Receive() (string, error)
	// Cut breaks the connection without a word.
	Cut()
}

// Kind names a transport.
type Kind string

// Kinds of transports. Upgrade is what front-ends do unless told otherwise: it
// begins as Polling and goes over to WebSocket when it can.
const (
	WebSocket Kind = "websocket"
	Polling   Kind = "polling"
	Upgrade   Kind = "upgrade"
)

// Dialer says where and how to connect.
type Dialer struct {
	Kind Kind
	// Node answers the address, without a path, that the next request goes to.
	Node func() string
}

// Dial opens a connection; ctx ends no connection that stands.
func (d Dialer) Dial(ctx context.Context) (Transport, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if d.Kind == WebSocket || d.Kind == "" {
		return dialWebSocket(ctx, d.Node(), "")
	}
	return dialPolling(ctx, d)
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
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return h, fmt.Errorf("open packet %.80q: %w", packet, err)
	}
	return h, nil
}

// silence is how long a server may say nothing.
func (h handshake) silence() time.Duration {
	return time.Duration(h.PingInterval+h.PingTimeout) * time.Millisecond
}

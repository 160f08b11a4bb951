package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
)

const namespace = "/chat-run,"

// identity is what a client keeps of a connection to continue it elsewhere.
type identity struct {
	sid, pid string
	offset   string
}

// received is one event.
type received struct {
	name    string
	payload json.RawMessage
}

// socket is one Socket.IO connection to the namespace.
type socket struct {
	transport transport
	node      string
	recovered bool

	mu sync.Mutex
	id identity
}

// join opens the namespace on a transport, as the continuation of before if that
// has a pid and an offset.
func join(t transport, node, token string, before identity) (*socket, error) {
	auth := map[string]string{"token": token}
	if before.pid != "" && before.offset != "" {
		auth["pid"], auth["offset"] = before.pid, before.offset
	}
	encoded, err := json.Marshal(auth)
	if err != nil {
		return nil, err
	}
	if err := t.send("40" + namespace + string(encoded)); err != nil {
		return nil, err
	}
	s := &socket{transport: t, node: node}
	packet, err := s.packet()
	if err != nil {
		return nil, err
	}
	text, ok := strings.CutPrefix(packet, "40"+namespace)
	if !ok {
		return nil, fmt.Errorf("%w: %.200s", errRefused, packet)
	}
	var reply struct{ SID, PID string }
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return nil, fmt.Errorf("connect reply %.200q: %w", packet, err)
	}
	s.recovered = before.pid != "" && reply.PID == before.pid
	s.id = identity{sid: reply.SID, pid: reply.PID}
	if s.recovered {
		s.id.offset = before.offset
		if reply.SID != before.sid {
			return nil, fmt.Errorf("recovered as %q, was %q", reply.SID, before.sid)
		}
	}
	return s, nil
}

// packet returns the next packet that is no heartbeat.
func (s *socket) packet() (string, error) {
	for {
		packet, err := s.transport.receive()
		if err != nil {
			return "", err
		}
		switch {
		case packet == "2":
			if err := s.transport.send("3"); err != nil {
				return "", err
			}
		case packet == "1" || strings.HasPrefix(packet, "41"):
			return "", fmt.Errorf("closed by the server")
		case packet != "6":
			return packet, nil
		}
	}
}

// next returns the next event.
func (s *socket) next() (received, error) {
	packet, err := s.packet()
	if err != nil {
		return received{}, err
	}
	text, ok := strings.CutPrefix(packet, "42"+namespace)
	if !ok {
		return received{}, fmt.Errorf("not an event: %.200q", packet)
	}
	var args []json.RawMessage
	var r received
	if err := json.Unmarshal([]byte(text), &args); err != nil || len(args) < 2 {
		return received{}, fmt.Errorf("malformed event %.200q: %w", packet, err)
	}
	if err := json.Unmarshal(args[0], &r.name); err != nil {
		return received{}, fmt.Errorf("event name in %.200q: %w", packet, err)
	}
	r.payload = args[1]
	if len(args) > 2 {
		var offset string
		if err := json.Unmarshal(args[2], &offset); err != nil {
			return received{}, fmt.Errorf("offset in %.200q: %w", packet, err)
		}
		s.mu.Lock()
		s.id.offset = offset
		s.mu.Unlock()
	}
	return r, nil
}

func (s *socket) identity() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// emit sends an event; whether it arrived nobody knows.
func (s *socket) emit(name string, payload any) error {
	encoded, err := json.Marshal([]any{name, payload})
	if err != nil {
		return err
	}
	return s.transport.send("42" + namespace + string(encoded))
}

// leave says goodbye, unlike a cut.
func (s *socket) leave() {
	_ = s.transport.send("41" + namespace) // the connection is closed either way
	s.transport.cut()
}

// open dials and joins.
func open(ctx context.Context, d dialer, token string, before identity) (*socket, error) {
	t, node, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	// A node that has just been stopped answers nothing: the reply is bounded by
	// the transport's own silence limit, and by this.
	stop := context.AfterFunc(ctx, t.cut)
	timer := time.AfterFunc(2*dialTimeout, t.cut)
	defer timer.Stop()
	defer stop()
	s, err := join(t, node, token, before)
	if err != nil {
		t.cut()
		return nil, err
	}
	return s, nil
}

// dialer chooses a node and a transport.
type dialer struct {
	node    string
	url     string
	polling bool
	roam    func() string // where each request of a polling client goes
}

func (d dialer) dial(ctx context.Context) (transport, string, error) {
	if !d.polling {
		t, err := dialWebSocket(ctx, d.url)
		if err != nil {
			return nil, d.node, err
		}
		return t, d.node, nil
	}
	nodes := d.roam
	if nodes == nil {
		nodes = func() string { return d.url }
	}
	t, err := dialPolling(ctx, nodes)
	if err != nil {
		return nil, d.node, err
	}
	return t, d.node, nil
}

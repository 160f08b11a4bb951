package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const namespace = "/chat-run,"

// ErrRefused is a namespace that does not let the client in.
var ErrRefused = errors.New("connection refused by the namespace")

// ErrLeft is a connection that the server has ended with a word.
var ErrLeft = errors.New("closed by the server")

// Identity is what a client keeps of a connection to continue it elsewhere.
type Identity struct {
	SID, PID string
	Offset   string // of the last event that had one
}

// Event is one event of the namespace as it came.
type Event struct {
	Name    string
	Payload json.RawMessage
	Offset  string // "" if it had none
}

// Socket is one connection to the namespace. Next is for one goroutine, the other
// methods for any.
type Socket struct {
	// Recovered says that the server continued the connection it was given.
	Recovered bool

	transport Transport
	mu        sync.Mutex
	id        Identity
}

// Open dials and joins, as the continuation of before if that has a pid and an
// offset.
func Open(ctx context.Context, d Dialer, token string, before Identity) (*Socket, error) {
	t, err := d.Dial(ctx)
	if err != nil {
		return nil, err
	}
	// A node that has just been stopped answers nothing.
	stop := context.AfterFunc(ctx, t.Cut)
	defer stop()
	timer := time.AfterFunc(2*dialTimeout, t.Cut)
	defer timer.Stop()
	s := &Socket{transport: t}
	if err := s.join(token, before); err != nil {
		t.Cut()
		return nil, err
	}
	if p, ok := t.(*polling); ok && d.Kind == Upgrade {
		if err := p.upgrade(ctx); err != nil {
			t.Cut()
			return nil, fmt.Errorf("upgrade: %w", err)
		}
	}
	return s, nil
}

func (s *Socket) join(token string, before Identity) error {
	auth := map[string]string{"token": token}
	if before.PID != "" && before.Offset != "" {
		auth["pid"], auth["offset"] = before.PID, before.Offset
	}
	encoded, err := json.Marshal(auth)
	if err != nil {
		return err
	}
	if err := s.transport.Send("40" + namespace + string(encoded)); err != nil {
		return err
	}
	packet, err := s.packet()
	if err != nil {
		return err
	}
	text, ok := strings.CutPrefix(packet, "40"+namespace)
	if !ok {
		return fmt.Errorf("%w: %.200s", ErrRefused, packet)
	}
	var reply struct{ SID, PID string }
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		return fmt.Errorf("connect reply %.200q: %w", packet, err)
	}
	s.Recovered = before.PID != "" && reply.PID == before.PID
	s.id = Identity{SID: reply.SID, PID: reply.PID}
	if s.Recovered {
		s.id.Offset = before.Offset
		if reply.SID != before.SID {
			return fmt.Errorf("recovered as %q, was %q", reply.SID, before.SID)
		}
	}
	return nil
}

// packet returns the next packet that is no heartbeat.
func (s *Socket) packet() (string, error) {
	for {
		packet, err := s.transport.Receive()
		if err != nil {
			return "", err
		}
		switch {
		case packet == "2":
			if err := s.transport.Send("3"); err != nil {
				return "", err
			}
		case packet == "1" || strings.HasPrefix(packet, "41"):
			return "", ErrLeft
		case packet != "6":
			return packet, nil
		}
	}
}

// Next returns the next event.
func (s *Socket) Next() (Event, error) {
	packet, err := s.packet()
	if err != nil {
		return Event{}, err
	}
	text, ok := strings.CutPrefix(packet, "42"+namespace)
	if !ok {
		return Event{}, fmt.Errorf("not an event: %.200q", packet)
	}
	var args []json.RawMessage
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		return Event{}, fmt.Errorf("malformed event %.200q: %w", packet, err)
	}
	if len(args) < 2 {
		return Event{}, fmt.Errorf("event without a payload: %.200q", packet)
	}
	e := Event{Payload: args[1]}
	if err := json.Unmarshal(args[0], &e.Name); err != nil {
		return Event{}, fmt.Errorf("event name in %.200q: %w", packet, err)
	}
	if len(args) > 2 {
		if err := json.Unmarshal(args[2], &e.Offset); err != nil {
			return Event{}, fmt.Errorf("offset in %.200q: %w", packet, err)
		}
		s.mu.Lock()
		s.id.Offset = e.Offset
		s.mu.Unlock()
	}
	return e, nil
}

// Identity returns what is needed to continue this connection.
func (s *Socket) Identity() Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Emit sends an event; whether it arrived nobody knows.
func (s *Socket) Emit(name string, payload any) error {
	encoded, err := json.Marshal([]any{name, payload})
	if err != nil {
		return err
	}
	return s.transport.Send("42" + namespace + string(encoded))
}

// Leave says goodbye, unlike Cut.
func (s *Socket) Leave() {
	_ = s.transport.Send("41" + namespace) // the connection is closed either way
	s.Cut()
}

// Cut breaks the connection without a word.
func (s *Socket) Cut() { s.transport.Cut() }

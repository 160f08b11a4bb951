package socketio

import (
	"context"
	"encoding/json"
)

// Handler serves one namespace.
type Handler interface {
	// Connect decides whether the client may join. It runs on its own
	// goroutine; ctx ends with the connection and after ConnectTimeout. auth is
	// the payload of the CONNECT packet, nil if it had none. A [*Refused] error
	// is sent to the client as it is, any other as a general message.
	Connect(ctx context.Context, s *Socket, auth json.RawMessage) (Welcome, error)
	// Connected is called when the CONNECT reply has been queued, before any event.
	Connected(s *Socket)
	// Event is called for one event after the other. While it runs, further
	// events of this socket wait, and when many wait the client is not read.
	Event(s *Socket, e Event)
	// Disconnected is called once for each Connected, after the last Event.
	Disconnected(s *Socket, reason Reason)
}

// PongHandler is an optional part of a Handler. Everything that was sent to the
// socket before Ping has reached the client when Pong is called.
type PongHandler interface {
	// Ping is called when a ping is about to be queued. It must not block and
	// may run beside the other methods.
	Ping(s *Socket)
	// Pong is called when that ping was answered, in turn with the events.
	Pong(s *Socket)
}

// Welcome is the content of a CONNECT reply.
type Welcome struct {
	SID string // socket id; made by the server if empty
	PID string // private id of connection state recovery; left out if empty
}

// Refused is an error of Connect that the client is told.
type Refused struct {
	Message string
	Data    any // left out if nil
}

// Error is the message.
func (r *Refused) Error() string { return r.Message }

// Event is an event that the client sent.
type Event struct {
	Name string
	// Args are the arguments after the name. Binary ones are placeholders that
	// point into Attachments, see Values.
	Args        []json.RawMessage
	Attachments [][]byte
	// Ack answers the event, at most once; nil if the client asked for no answer.
	Ack func(args ...any) error
}

// Values gives the arguments with binary ones in place of their placeholders,
// ready to be sent again. Placeholders inside other values are left as they are.
func (e Event) Values() []any { return values(e.Args, e.Attachments) }

// Reply is the answer to an event that the server sent.
type Reply struct {
	Args        []json.RawMessage
	Attachments [][]byte
}

// Values is like [Event.Values].
func (r Reply) Values() []any { return values(r.Args, r.Attachments) }

func values(args []json.RawMessage, attachments [][]byte) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		if len(attachments) == 0 {
			continue
		}
		var p struct {
			Placeholder bool `json:"_placeholder"`
			Num         *int `json:"num"`
		}
		if json.Unmarshal(a, &p) == nil && p.Placeholder && p.Num != nil && *p.Num >= 0 && *p.Num < len(attachments) {
			out[i] = attachments[*p.Num]
		}
	}
	return out
}

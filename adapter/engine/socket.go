package engine

import (
	"encoding/json"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Event is one event as it goes to sockets. It is built once and shared by all of
// them.
type Event struct {
	Name    string
	Payload json.RawMessage
	// Frame is for the socket implementation: the first Send may leave its encoding
	// here. All Sends of one Event happen on one goroutine.
	Frame any
}

// Room is a session as followed by one socket: where it stands after an event.
type Room struct {
	SessionID   string
	Incarnation string
	Position    store.Position // zero: the event is no log entry and moves nothing
	ShownRun    string         // run whose ending the socket is still owed
	// Volatile: the event may never come into the log. What the client has is not
	// told by the position, until the next event that is not volatile.
	Volatile bool
}

// CloseReason says why the engine closes a socket. Clients reconnect after each.
type CloseReason string

// Close reasons.
const (
	CloseBehind CloseReason = "behind" // its place in the log can no longer be read
	CloseStore  CloseReason = "store"  // the store did not answer in time
)

// Socket is a client connection as the engine sees it. Its methods are safe for
// concurrent use and never block.
type Socket interface {
	// ID is the connection id: the Socket.IO sid, the same after a recovery.
	ID() string
	// Principal is who is behind it at this moment.
	Principal() *auth.Principal
	// Profile is the profile of the handshake, "default" if none was given.
	Profile() string
	// Send queues e and records where the socket stands in r. It answers false, and
	// queues nothing, when the socket's buffer is full; the engine then stops
	// sending it log entries until Drained is called.
	Send(e *Event, r Room) bool
	// Drained asks for f to be called once, soon, when the buffer has room again.
	Drained(f func())
	// Gone reports whether the connection has ended. It is true before Leave is
	// called for the socket.
	Gone() bool
	// Left tells that the socket does not follow the session any more.
	Left(sessionID string)
	// Close ends the connection.
	Close(r CloseReason)
}

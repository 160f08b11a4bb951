package engineio

import "github.com/gobwas/ws"

// Reason says why a connection or a socket ended.
type Reason uint8

// The reasons. Their texts are stable: they are metric labels.
const (
	// ReasonNone is the zero value: not closed.
	ReasonNone Reason = iota
	// ReasonTransportClose: the client closed the connection.
	ReasonTransportClose
	// ReasonTransportError: the network connection failed, or a poll was cancelled.
	ReasonTransportError
	// ReasonPingTimeout: no pong came in time.
	ReasonPingTimeout
	// ReasonParseError: the client sent something that is not the protocol.
	ReasonParseError
	// ReasonTooBig: the client sent a message above the announced limit.
	ReasonTooBig
	// ReasonSlowConsumer: the client did not read what was sent to it.
	ReasonSlowConsumer
	// ReasonConnectTimeout: no namespace was joined in time.
	ReasonConnectTimeout
	// ReasonServerClose: the application closed the connection.
	ReasonServerClose
	// ReasonCredentials: the credentials behind the connection ended; the client is asked again.
	ReasonCredentials
	// ReasonMoved: the server asks the client to connect anew, perhaps elsewhere.
	ReasonMoved
	// ReasonShutdown: the server is going away.
	ReasonShutdown
	// ReasonClientNamespace: the client left the namespace; the connection lives on.
	ReasonClientNamespace
	// ReasonServerNamespace: the application removed the socket from the namespace.
	ReasonServerNamespace
)

type reasonInfo struct {
	label      string
	code       ws.StatusCode
	reconnects bool
	abrupt     bool
}

var reasons = [...]reasonInfo{
	ReasonNone:            {"none", ws.StatusNormalClosure, false, false},
	ReasonTransportClose:  {"transport_close", ws.StatusNormalClosure, false, true},
	ReasonTransportError:  {"transport_error", ws.StatusInternalServerError, true, true},
	ReasonPingTimeout:     {"ping_timeout", ws.StatusNormalClosure, true, true},
	ReasonParseError:      {"parse_error", ws.StatusProtocolError, true, true},
	ReasonTooBig:          {"too_big", ws.StatusMessageTooBig, true, true},
	ReasonSlowConsumer:    {"slow_consumer", ws.StatusPolicyViolation, true, true},
	ReasonConnectTimeout:  {"connect_timeout", ws.StatusPolicyViolation, true, false},
	ReasonServerClose:     {"server_close", ws.StatusNormalClosure, true, false},
	ReasonCredentials:     {"credentials", ws.StatusPolicyViolation, true, false},
	ReasonMoved:           {"moved", ws.StatusGoingAway, true, false},
	ReasonShutdown:        {"shutdown", ws.StatusGoingAway, true, false},
	ReasonClientNamespace: {"client_namespace", ws.StatusNormalClosure, false, false},
	ReasonServerNamespace: {"server_namespace", ws.StatusNormalClosure, false, false},
}

func (r Reason) info() reasonInfo {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return reasons[ReasonNone]
}

// String is the stable label of the reason.
func (r Reason) String() string { return r.info().label }

// Reconnects reports whether the official client connects again by itself
// after this reason.
func (r Reason) Reconnects() bool { return r.info().reconnects }

// Code is the status of the WebSocket close frame.
func (r Reason) Code() ws.StatusCode { return r.info().code }

// abrupt reasons drop what is still queued: nobody reads it any more, or the
// client no longer speaks the protocol.
func (r Reason) abrupt() bool { return r.info().abrupt }

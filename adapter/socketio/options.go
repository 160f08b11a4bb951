package socketio

import (
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

// Defaults beside those of package engineio.
const (
	DefaultConnectTimeout = 45 * time.Second
	DefaultMaxNamespaces  = 16
	DefaultMaxRooms       = 256
	DefaultMaxPendingAcks = 64
)

// Names of package engineio that are part of this API.
type (
	// Admission is what the caller knows of a request it lets in.
	Admission = engineio.Admission
	// Transport is how a connection is carried.
	Transport = engineio.Transport
	// Reason says why a connection or a socket ended.
	Reason = engineio.Reason
	// Observer receives what metrics need.
	Observer = engineio.Observer
	// SlowAction is what was done about a slow client.
	SlowAction = engineio.SlowAction
)

// The transports and reasons, see package engineio.
const (
	Polling   = engineio.Polling
	WebSocket = engineio.WebSocket

	ReasonTransportClose  = engineio.ReasonTransportClose
	ReasonTransportError  = engineio.ReasonTransportError
	ReasonPingTimeout     = engineio.ReasonPingTimeout
	ReasonParseError      = engineio.ReasonParseError
	ReasonTooBig          = engineio.ReasonTooBig
	ReasonSlowConsumer    = engineio.ReasonSlowConsumer
	ReasonConnectTimeout  = engineio.ReasonConnectTimeout
	ReasonServerClose     = engineio.ReasonServerClose
	ReasonCredentials     = engineio.ReasonCredentials
	ReasonMoved           = engineio.ReasonMoved
	ReasonShutdown        = engineio.ReasonShutdown
	ReasonClientNamespace = engineio.ReasonClientNamespace
	ReasonServerNamespace = engineio.ReasonServerNamespace
)

// Errors of sending.
var (
	// ErrClosed: the socket or its connection has ended, or is not connected yet.
	ErrClosed = engineio.ErrClosed
	// ErrBufferFull: the client reads too slowly; nothing was queued.
	ErrBufferFull = engineio.ErrBufferFull
)

// Options configures a [Server]. Zero values stand for the defaults.
type Options struct {
	// PingInterval and PingTimeout (25 s, 20 s) are announced to the client.
	PingInterval, PingTimeout time.Duration
	// UpgradeTimeout (10 s) bounds the change from polling to WebSocket.
	UpgradeTimeout time.Duration
	// ConnectTimeout (45 s) bounds the time a connection may have no namespace,
	// and each Handler.Connect.
	ConnectTimeout time.Duration
	// MaxPayload (1,000,000 bytes) is the largest message accepted; announced.
	MaxPayload int64
	// SendBuffer (256 KiB) bounds the bytes queued for one connection.
	SendBuffer int
	// WriteTimeout (10 s) bounds each write to the network.
	WriteTimeout time.Duration
	// MaxNamespaces (16) bounds the namespaces of one connection, MaxRooms (256)
	// the rooms and MaxPendingAcks (64) the unanswered EmitWithAck calls of one
	// socket.
	MaxNamespaces, MaxRooms, MaxPendingAcks int
	// EventRate bounds the events per second of one connection, with bursts of
	// one second's worth; 0 = none. Excess is delayed by not reading on.
	EventRate float64
	// MaxConnections bounds the open connections, 0 = none; above it handshakes
	// are answered 503 with Retry-After.
	MaxConnections int
	// NewSID makes Engine.IO session ids, unguessable and URL-safe.
	NewSID func() string
	// KeepHeaders lists the handshake headers that Conn.Header can give back,
	// in canonical form; "Host" is the request's host.
	KeepHeaders []string
	// Logger may be nil.
	Logger *zap.Logger
	// Observer may be nil.
	Observer Observer
}

func (o Options) withDefaults() *Options {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = DefaultConnectTimeout
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = engineio.DefaultMaxPayload
	}
	setInt(&o.MaxNamespaces, DefaultMaxNamespaces)
	setInt(&o.MaxRooms, DefaultMaxRooms)
	setInt(&o.MaxPendingAcks, DefaultMaxPendingAcks)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	return &o
}

func setInt(n *int, def int) {
	if *n <= 0 {
		*n = def
	}
}

func (o *Options) engine() engineio.Options {
	return engineio.Options{
		PingInterval: o.PingInterval, PingTimeout: o.PingTimeout, UpgradeTimeout: o.UpgradeTimeout,
		MaxPayload: o.MaxPayload, SendBuffer: o.SendBuffer, WriteTimeout: o.WriteTimeout,
		MaxConnections: o.MaxConnections, NewSID: o.NewSID, KeepHeaders: o.KeepHeaders,
		Logger: o.Logger, Observer: o.Observer,
	}
}

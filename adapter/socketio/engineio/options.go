package engineio

import (
	"crypto/rand"
	"encoding/base64"
	"time"

	"go.uber.org/zap"
)

// Defaults of the protocol and of this server.
const (
	DefaultPingInterval   = 25 * time.Second
	DefaultPingTimeout    = 20 * time.Second
	DefaultUpgradeTimeout = 10 * time.Second
	DefaultMaxPayload     = 1_000_000
	DefaultSendBuffer     = 256 << 10
	DefaultWriteTimeout   = 10 * time.Second
)

// Options configures a [Server]. Zero values stand for the defaults.
type Options struct {
	// PingInterval and PingTimeout are announced to the client: a ping is sent
	// every interval, and a client that does not answer within the timeout is gone.
	PingInterval, PingTimeout time.Duration
	// UpgradeTimeout bounds the change from polling to WebSocket.
	UpgradeTimeout time.Duration
	// MaxPayload is the largest message or polling body accepted, in bytes; announced.
	MaxPayload int64
	// SendBuffer bounds the bytes queued for one connection. While less than
	// half of it is in use, a message of any size still passes.
	SendBuffer int
	// WriteTimeout bounds each write to the network.
	WriteTimeout time.Duration
	// MaxConnections bounds the open connections, 0 = none. Above it handshakes
	// are answered 503 with Retry-After.
	MaxConnections int
	// NewSID makes session ids; they must be unguessable and URL-safe.
	NewSID func() string
	// KeepHeaders lists the handshake headers that [Conn.Header] can give back.
	KeepHeaders []string
	// Logger may be nil.
	Logger *zap.Logger
	// Observer may be nil.
	Observer Observer
}

func (o Options) withDefaults() *Options {
	setDuration(&o.PingInterval, DefaultPingInterval)
	setDuration(&o.PingTimeout, DefaultPingTimeout)
	setDuration(&o.UpgradeTimeout, DefaultUpgradeTimeout)
	setDuration(&o.WriteTimeout, DefaultWriteTimeout)
	if o.MaxPayload <= 0 {
		o.MaxPayload = DefaultMaxPayload
	}
	if o.SendBuffer <= 0 {
		o.SendBuffer = DefaultSendBuffer
	}
	if o.NewSID == nil {
		o.NewSID = RandomID
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Observer == nil {
		o.Observer = nopObserver{}
	}
	return &o
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// RandomID makes an unguessable, URL-safe id of 20 characters.
func RandomID() string {
	var b [15]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Bounds of the listener. There is none on the time of a request: a poll is held
// for as long as the connection that it belongs to allows.
const (
	maxConnections    = 16 << 10
	maxHeader         = 16 << 10
	readHeaderTimeout = 10 * time.Second // also of the TLS handshake
	serverIdleTimeout = 2 * idleTimeout  // the forwarder lets go first
)

// HandlerFunc serves a forwarded request as it came to the first node. Identity is
// what that node knows of who sends it.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, identity string)

// ListenOptions configure a [Listener].
type ListenOptions struct {
	Node    string // name of this node
	Secret  []byte // shared by all nodes
	Address string // host:port; port 0 is any free one
	Handler HandlerFunc
	Logger  *zap.Logger // may be nil
}

// Listener serves what other nodes forward. Requests without a valid proof are
// answered 401.
type Listener struct {
	server      *http.Server
	address     string
	fingerprint string
	done        chan struct{}
}

// Listen opens a listener, with a certificate of its own.
func Listen(ctx context.Context, o ListenOptions) (*Listener, error) {
	cert, fingerprint, err := newCertificate(o.Node)
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	errorLog, err := zap.NewStdLogAt(o.Logger, zap.DebugLevel)
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("log of the listener for other nodes: %w", err)
	}
	l := &Listener{address: ln.Addr().String(), fingerprint: fingerprint, done: make(chan struct{})}
	l.server = &http.Server{
		Handler:           gate{proof(o.Secret, o.Node, fingerprint), o.Handler},
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}},
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       serverIdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          errorLog,
	}
	l.server.Protocols.SetHTTP1(true) // an upgrade needs it
	go func() {
		defer close(l.done)
		err := l.server.ServeTLS(&limited{Listener: ln, slots: make(chan struct{}, maxConnections)}, "", "")
		if !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the listener for other nodes has ended", zap.Error(err))
		}
	}()
	return l, nil
}

// Address is the address that is listened on, host:port.
func (l *Listener) Address() string { return l.address }

// Fingerprint is the SHA-256 of the certificate, hexadecimal.
func (l *Listener) Fingerprint() string { return l.fingerprint }

// Close takes no more requests, waits until those under way have ended, but not
// longer than ctx, and cuts them off then. Connections that were upgraded belong to
// the handler.
func (l *Listener) Close(ctx context.Context) error {
	err := l.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, l.server.Close())
	}
	<-l.done
	return err
}

// gate lets in what other nodes have forwarded.
type gate struct {
	proof   string
	handler HandlerFunc
}

func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !sameProof(r.Header.Get(headerProof), g.proof) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.Method = r.Header.Get(headerMethod)
	identity := r.Header.Get(headerIdentity)
	for _, name := range []string{headerProof, headerMethod, headerIdentity} {
		r.Header.Del(name)
	}
	g.handler(w, r, identity)
}

// limited bounds the connections that are open at once.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &counted{Conn: conn, free: func() { <-l.slots }}, nil
		default:
			_ = conn.Close()
		}
	}
}

type counted struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *counted) Close() error {
	c.once.Do(c.free)
	return c.Conn.Close()
}

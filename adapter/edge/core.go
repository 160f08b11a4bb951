package edge

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

// States of a core as [Core.Status] names them.
const (
	StatusOK       = "ok"       // serves
	StatusStarting = "starting" // the store is not open yet; handshakes are answered 503
	StatusDegraded = "degraded" // serves, but something an operator should look at is wrong
	StatusDraining = "draining" // goes away; handshakes are answered 503
)

// Errors of a core.
var (
	// ErrNoToken: no mount relies on the generated access token.
	ErrNoToken = errors.New("there is no access token: every hermes_edge has its own auth")
	// ErrDraining: the core is going away and takes no configuration any more.
	ErrDraining = errors.New("the server is shutting down")
	// ErrNotReady: the store is not open (yet).
	ErrNotReady = errors.New("the server is starting")
)

// Core is store, engine, Socket.IO server with all its connections, node identity
// and generated access token of one data file. It is safe for concurrent use.
type Core struct {
	key      string
	deps     Deps
	draining atomic.Bool
}

// NewCore makes the core of a key. It does no I/O and cannot fail; the core works
// from its first Attach on.
func NewCore(key string, deps Deps) *Core { return &Core{key: key, deps: deps} }

// Key is the key the core was made with.
func (c *Core) Key() string { return c.key }

// Attachment is one configuration that uses a core.
type Attachment struct{ core *Core }

// Attach makes s the current settings. The first Attach opens the store and starts
// the engine. It fails only for the configuration itself or for a data file that
// another process has locked (R3); other troubles of the store leave the core not
// ready and are retried. ctx bounds the call, not the core.
func (c *Core) Attach(ctx context.Context, s Settings) (*Attachment, error) {
	if c.draining.Load() {
		return nil, ErrDraining
	}
	return &Attachment{core: c}, nil
}

// Detach takes the settings away again: the newest ones still attached become
// current. Repeated calls do nothing.
func (a *Attachment) Detach() {}

// Status is one of the Status constants.
func (c *Core) Status() string {
	if c.draining.Load() {
		return StatusDraining
	}
	return StatusStarting
}

// Health is the redacted detail of the health answers, for authorised callers. It
// may ask gateways; ctx bounds that.
func (c *Core) Health(ctx context.Context) map[string]any { return map[string]any{"status": c.Status()} }

// Stats counts what is open and active, for the admin endpoint.
func (c *Core) Stats() map[string]any { return map[string]any{"status": c.Status()} }

// ServeSocket serves one request below /socket.io/ that came through m. The caller
// has checked the Origin and set its answer headers.
func (c *Core) ServeSocket(w http.ResponseWriter, r *http.Request, m *Mount, req Request) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, c.Status(), http.StatusServiceUnavailable)
}

// Authenticate admits a request of the HTTP API that came through m. Errors are
// those of package auth; a failed login is answered late.
func (c *Core) Authenticate(ctx context.Context, m *Mount, cred auth.Credentials) (*auth.Principal, error) {
	return nil, auth.ErrUnavailable
}

// BeginExit tells the core that the process ends: not ready any more, handshakes
// refused, held polls answered. It does not block.
func (c *Core) BeginExit() { c.draining.Store(true) }

// Drain ends the core: runs may finish until ctx ends, connections are closed with
// a reason after which clients connect again, then engine and store are closed.
// It returns by the end of ctx and may be called again.
func (c *Core) Drain(ctx context.Context) { c.BeginExit() }

// AccessToken returns the generated access token, ErrNoToken if nothing uses it.
// It is for the operator's eyes, never for a log.
func (c *Core) AccessToken() (string, error) { return "", ErrNoToken }

// RotateAccessToken replaces the generated access token and returns the new one.
// Connections admitted by the old one are closed.
func (c *Core) RotateAccessToken() (string, error) { return "", ErrNoToken }

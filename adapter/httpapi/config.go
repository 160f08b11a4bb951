package httpapi

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// Sessions is the part of the engine behind this API. Its methods decide
// themselves what a principal may see; errors are the engine's: ErrNotFound,
// ErrProfileDenied, ErrBusy, ErrUnavailable, ErrBadRequest.
type Sessions interface {
	// ListSessions returns a page of rows and the cursor of the next one, empty if
	// this is the last.
	ListSessions(ctx context.Context, p *auth.Principal, q engine.ListQuery) (rows []chatrun.SessionRow, next string, err error)
	Session(ctx context.Context, p *auth.Principal, sid string) (chatrun.SessionRow, error)
	// Messages returns the last limit messages with an id below before (0: the
	// newest), in ascending order.
	Messages(ctx context.Context, p *auth.Principal, sid string, before int64, limit int) (msgs []chatrun.Message, hasMore bool, err error)
	UpdateSession(ctx context.Context, p *auth.Principal, sid string, patch engine.SessionPatch) (chatrun.SessionRow, error)
	DeleteSession(ctx context.Context, p *auth.Principal, sid string) error
}

// Observer counts requests. route is the pattern, never the path.
type Observer interface {
	HTTPRequest(route string, status int, d time.Duration)
}

// States of Config.Status.
const (
	StatusOK          = "ok"
	StatusStarting    = "starting"
	StatusDegraded    = "degraded"
	StatusUnavailable = "unavailable" // the store that nodes share does not answer
	StatusDraining    = "draining"
)

// Config is what the handler works with. Functions are called concurrently.
type Config struct {
	Sessions Sessions
	// Authenticate admits a request: it takes the credential with auth.BearerToken
	// and what the web server knows, and applies the rules of the mount. Errors are
	// auth.ErrFailed, auth.ErrProfile and auth.ErrUnavailable.
	Authenticate func(*http.Request) (*auth.Principal, error)
	// Status is one of the states above. ok and degraded are ready.
	Status func() string
	// Health returns the redacted detail for admins.
	Health func(ctx context.Context) any
	// Features returns what the page may offer to p; nil: nothing.
	Features func(p *auth.Principal) any
	// Profiles returns the configured profiles that p may use.
	Profiles func(p *auth.Principal) []string
	// Page serves the built-in page; nil: none. Its paths are relative to
	// /chat-run/: empty for the page itself.
	Page http.Handler

	Origins auth.OriginPolicy
	// TrustForwardedHost reports whether a request came through a proxy that is
	// trusted to set X-Forwarded-Host; nil: never.
	TrustForwardedHost func(*http.Request) bool

	Observer Observer    // nil: none
	Logger   *zap.Logger // nil: none; gets failures that no user can act on
}

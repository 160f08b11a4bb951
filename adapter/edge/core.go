package edge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/httpapi"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

// Errors of a core.
var (
	// ErrNoToken: no mount relies on the generated access token.
	ErrNoToken = errors.New("there is no access token: every hermes_edge has its own auth")
	// ErrTokenLater: there is one, but the store that holds it cannot be used yet.
	ErrTokenLater = errors.New("the access token is not known yet: the store that holds it cannot be used; the log names the cause")
	// ErrDraining: the core is going away and takes no configuration any more.
	ErrDraining = errors.New("the server is shutting down")
)

// Core is store, engine, Socket.IO server with all its connections, node identity
// and generated access token of one data file or Redis. It is safe for concurrent use.
type Core struct {
	key     string
	node    string
	log     *zap.Logger
	deps    Deps
	io      *socketio.Server
	pool    upstreams
	sockets directory
	keeper  keeper

	life context.Context // ends when the core is gone
	end  context.CancelFunc
	work workers

	// turn admits one Attach, Detach or opening of the store at a time; it guards
	// the fields below it, and is waited for with a context, since it is kept over I/O.
	turn     chan struct{}
	stack    []*Attachment
	opening  bool
	store    store.Store       // open, though perhaps not reached yet
	shared   *redisstore.Store // the same, if nodes share it
	reported string            // what the log said last about opening

	sharedOptions redisstore.Options // that shared was opened or last configured with

	gen     atomic.Pointer[generation] // current settings; nil before the first Attach
	backend atomic.Pointer[backend]    // nil while the store is not open
	token   atomic.Pointer[auth.Generated]
	trouble atomic.Pointer[string] // why the store is not open, redacted
	watch   storeWatch

	notices  chan store.Notice        // from other nodes
	endpoint atomic.Pointer[endpoint] // where they reach this one; nil: they do not
	peers    peers
	exit     exitState

	review    chan struct{} // asks the reviewer to look at every socket
	reviewing sync.Once     // starts the reviewer
}

// backend is what exists while the store is open.
type backend struct {
	store  store.Store
	shared store.Shared // the same, if nodes share it
	engine *engine.Engine
}

// NewCore makes the core of a key. It does no I/O and cannot fail; the core works
// from its first Attach on.
func NewCore(key string, deps Deps) *Core {
	if deps.Logger == nil {
		deps.Logger = zap.NewNop()
	}
	c := &Core{
		key: key, node: nodeID(deps.Node), log: deps.Logger, deps: deps,
		turn: make(chan struct{}, 1), review: make(chan struct{}, 1),
		notices: make(chan store.Notice, maxNotices),
	}
	c.watch.began, c.watch.metrics = time.Now(), deps.Metrics
	c.life, c.end = context.WithCancel(context.Background())
	c.exit.init()
	c.sockets.init()
	c.keeper.init(c)
	c.peers.init()
	c.pool.log = deps.Logger.Named("gateway")
	c.pool.models, c.pool.metrics = c.model, deps.Metrics
	c.io = newServer(c)
	return c
}

// Key is the key the core was made with.
func (c *Core) Key() string { return c.key }

// Profiles returns the configured profiles that p may use, sorted.
func (c *Core) Profiles(p *auth.Principal) []string {
	var out []string
	for _, profile := range c.profiles() {
		if p.MayUse(profile) {
			out = append(out, profile)
		}
	}
	return out
}

// Sessions is the engine behind the HTTP API. While the store is not open its
// methods answer engine.ErrUnavailable.
func (c *Core) Sessions() httpapi.Sessions { return sessions{c} }

// Authenticate admits a request of the HTTP API that came through m. Errors are
// those of package auth; a failed login is answered late.
func (c *Core) Authenticate(ctx context.Context, m *Mount, cred auth.Credentials) (*auth.Principal, error) {
	p, err := c.rules(m).Authenticate(ctx, cred)
	if err == nil && p.Expired(now()) {
		err = auth.ErrFailed
	}
	if err != nil {
		c.deps.Metrics.AuthFailed(failureLabel(err))
		return nil, err
	}
	return p, nil
}

// rules are those of a mount. One of another generation than the current is still
// asked: its web server answers requests that began before a reload. Whom only that
// one admits is sent away by the review that follows.
func (c *Core) rules(m *Mount) auth.Authenticator {
	if g := c.gen.Load(); g != nil {
		if rules := g.rules(m); rules != nil {
			return rules
		}
	}
	return mountRules(m, generatedAuth{c})
}

func failureLabel(err error) string {
	switch {
	case errors.Is(err, auth.ErrProfile):
		return "profile"
	case errors.Is(err, auth.ErrUnavailable):
		return "unavailable"
	default:
		return "failed"
	}
}

// engine answers the engine, nil while the store is not open.
func (c *Core) engine() *engine.Engine {
	if b := c.backend.Load(); b != nil {
		return b.engine
	}
	return nil
}

// profiles answers the configured profiles of the current generation.
func (c *Core) profiles() []string {
	if g := c.gen.Load(); g != nil {
		return slices.Clone(g.profiles)
	}
	return nil
}

// executors answers for the engine what carries out a profile's next run.
func (c *Core) executors(profile string) (string, engine.Executor, error) {
	g := c.gen.Load()
	if g == nil {
		return "", nil, errNoGateway(profile)
	}
	return g.executor(profile)
}

func (c *Core) slots(profile string) (gateway string, limit int) {
	if g := c.gen.Load(); g != nil {
		return g.slots(profile)
	}
	return "", 0
}

func (c *Core) limits() engine.Limits {
	if g := c.gen.Load(); g != nil {
		return g.engineLimits()
	}
	return engine.Limits{}
}

func (c *Core) model(requested string) string {
	if g := c.gen.Load(); g != nil {
		return g.model(requested)
	}
	return ""
}

// nodeID names this process for other nodes. It is new with each process: what was
// addressed to the one before must not reach it.
func nodeID(name string) string {
	if name == "" {
		return randomName(6)
	}
	return name + "-" + randomName(4)
}

// randomName returns 2n unguessable hexadecimal digits.
func randomName(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// workers are the goroutines of a core; none starts once they are waited for.
type workers struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
}

// run starts f on its own goroutine; false: the core is gone.
func (w *workers) run(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.group.Go(f)
	return true
}

// wait lets no goroutine start any more and waits for those that run.
func (w *workers) wait() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.group.Wait()
}

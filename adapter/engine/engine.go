package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Limits are the settings that bound the engine. 0 means no limit where not said
// otherwise.
type Limits struct {
	RunsPerUser    int // active and waiting runs of one user on this node
	RoomsPerSocket int // sessions one socket follows; the least recently active idle one leaves first
}

// Config is what an engine is made of. The functions answer the settings of the
// moment and are safe for concurrent use.
type Config struct {
	Store store.Store
	Node  string // node name, for tokens and leases
	// Executors answers the executor class and the executor of a profile, or an
	// error for users if the profile has none.
	Executors func(profile string) (class string, x Executor, err error)
	Profiles  func() []string // configured profiles
	Limits    func() Limits
	Logger    *zap.Logger
	Metrics   Metrics // may be nil
	// Slots answers the gateway of a profile, a name that is the same on all nodes, and
	// how many runs may work there at a time; nil, or a limit of 0: as many as come.
	Slots func(profile string) (gateway string, limit int)
	// Notify tells another node that can carry an executor class of work that waits
	// for one; nil: the sweeps find it.
	Notify func(ctx context.Context, n store.Notice, class string)
}

// Metrics receives counts. Its methods are safe for concurrent use and never
// block.
type Metrics interface {
	RunStarted(executor string)
	RunEnded(executor, outcome string, d time.Duration)
	QueueLength(delta int) // messages that wait in the sessions known here
	Delta(n int)
	FirstDelta(d time.Duration)
	Watchers(delta int)       // memberships: a socket in a session
	Rooms(delta int)          // sessions with at least one member
	SessionsLoaded(delta int) // sessions with an actor
	SlowConsumer(action string)
	FenceLost()             // a run that this node carried out belongs to another one now
	TookOver(how string)    // a session without owner was taken: rerun, picked up, or queued
	LogLag(d time.Duration) // from the writing of an entry to its delivery on another node
	Volatile(batches int)   // batches shown to members before the store had them
	Outbox(bytes int)       // change of what waits for a store that is away
	Reinstated()            // a run was brought back into a store that had lost it
	Buried()                // a run that could not be brought back was recorded as failed
	SlotWait(delta int)     // runs that wait for a place at their gateway
	Settled()               // nothing began for a while, because the store may have lost writes
}

// Times of the engine.
const (
	callTimeout   = 2 * time.Second  // budget of an operation on behalf of a client
	resumeTimeout = 10 * time.Second // a resume waits this long for the store
	finishTimeout = 10 * time.Second // a commit that fails is retried this long
	sweepInterval = time.Second
	sweepBatch    = 32
	abortWait     = 20 * time.Second // longest time from abort to its ending (CR-68)
)

// Engine owns the sessions that are active on this node. It is safe for
// concurrent use.
type Engine struct {
	cfg  Config
	log  *zap.Logger
	boot string // makes tokens of this process unlike those of any other

	settle      settle
	kept        keptFinishes
	misfits     misfits
	slots       slotNotices
	keptBytes   atomic.Int64 // of rows kept for runs and endings that the store may lose
	withdrawals atomic.Int64 // messages that wait for their withdrawal
	outboxBytes atomic.Int64 // of batches that wait for the store

	ctx    context.Context // ends when the engine closes
	cancel context.CancelFunc
	wg     sync.WaitGroup // run and sweep goroutines

	mu        sync.Mutex // guards the directories below, never held across I/O
	sessions  map[string]*session
	followers map[Socket]*follower
	userRuns  map[string]int
	quiet     []chan struct{} // closed when the last run has ended
	draining  bool
	leaving   chan struct{} // closed when the node drains
	closed    bool
}

// New makes an engine; Start makes it work.
func New(cfg Config) *Engine {
	if cfg.Metrics == nil {
		cfg.Metrics = noMetrics{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Engine{
		cfg: cfg, log: cfg.Logger, boot: randomID(8), ctx: ctx, cancel: cancel,
		sessions: map[string]*session{}, followers: map[Socket]*follower{}, userRuns: map[string]int{},
		leaving: make(chan struct{}),
	}
}

// Start takes over what an earlier process left behind and then watches the work
// index. It returns once the leftovers have an owner.
func (e *Engine) Start(ctx context.Context) error {
	for {
		n, err := e.sweep(ctx)
		if err != nil {
			return err
		}
		if n < sweepBatch {
			break
		}
	}
	if !e.spawn(e.sweepLoop) || e.lossy() && !e.spawn(e.pollLoop) {
		return ErrUnavailable
	}
	return nil
}

// spawn runs f on a goroutine that Close waits for; it answers false once the
// engine is closing.
func (e *Engine) spawn(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.wg.Go(f)
	return true
}

// acquire answers the session's actor, making it if nobody has it. Every acquire
// is paired with a release; an actor that nobody holds is forgotten.
func (e *Engine) acquire(sid string) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[sid]
	if s == nil {
		s = newSession(e, sid)
		e.sessions[sid] = s
		e.cfg.Metrics.SessionsLoaded(1)
	}
	s.refs++
	return s
}

func (e *Engine) release(s *session) {
	e.mu.Lock()
	s.refs--
	idle := s.refs == 0
	if idle {
		delete(e.sessions, s.sid)
		e.cfg.Metrics.SessionsLoaded(-1)
	}
	e.mu.Unlock()
	if idle {
		s.box.post(s.shut)
	}
}

// Stats counts what is active on this node.
type Stats struct {
	Sessions, ActiveRuns, Watchers int
}

// Stats answers the counts of this moment.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := Stats{Sessions: len(e.sessions), Watchers: len(e.followers)}
	for _, n := range e.userRuns {
		st.ActiveRuns += n
	}
	return st
}

// head answers the stored root of one session.
func (e *Engine) head(ctx context.Context, sid string) (store.Session, error) {
	heads, err := e.cfg.Store.Head(ctx, sid)
	if err != nil {
		return store.Session{}, err
	}
	if len(heads) != 1 {
		return store.Session{}, errors.New("store answered no root")
	}
	return heads[0], nil
}

// newToken makes the token of one tenure.
func (e *Engine) newToken() string { return e.cfg.Node + "/" + e.boot + "/" + randomID(12) }

func (e *Engine) isDraining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

func randomID(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// newStamp makes the stamp of one call to the store: 6 characters. It tells calls
// apart and guards nothing, so that it need not be unguessable.
func newStamp() string {
	const digits = "0123456789abcdefghijklmnopqrstuv"
	var b [6]byte
	for i, r := 0, mathrand.Uint64(); i < len(b); i, r = i+1, r>>5 {
		b[i] = digits[r&31]
	}
	return string(b[:])
}

type noMetrics struct{}

func (noMetrics) RunStarted(string)                      {}
func (noMetrics) RunEnded(string, string, time.Duration) {}
func (noMetrics) QueueLength(int)                        {}
func (noMetrics) Delta(int)                              {}
func (noMetrics) FirstDelta(time.Duration)               {}
func (noMetrics) Watchers(int)                           {}
func (noMetrics) Rooms(int)                              {}
func (noMetrics) SessionsLoaded(int)                     {}
func (noMetrics) SlowConsumer(string)                    {}
func (noMetrics) FenceLost()                             {}
func (noMetrics) TookOver(string)                        {}
func (noMetrics) LogLag(time.Duration)                   {}
func (noMetrics) Volatile(int)                           {}
func (noMetrics) Outbox(int)                             {}
func (noMetrics) Reinstated()                            {}
func (noMetrics) Buried()                                {}
func (noMetrics) SlotWait(int)                           {}
func (noMetrics) Settled()                               {}

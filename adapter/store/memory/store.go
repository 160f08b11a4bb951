package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Options configure a Store. The zero value is a store of many nodes that
// forgets everything with its process.
type Options struct {
	Clock  func() int64       // Unix milliseconds; nil: the wall clock
	Random func(n int) string // n random characters of [a-z0-9]; nil: a random source
	Limits store.Limits       // zero value: the defaults
	// SingleProcess: leases do not expire while the process lives, and NotAfter is
	// not enforced, since a call that was given up cannot be executed by another
	// process later (contract section 7).
	SingleProcess bool
	// FallsBack: acknowledged writes may be lost (FallBack), so that there are
	// generations, and runs can be reinstated. It goes without a Journal.
	FallsBack bool
	Boot      string        // names this process in the journal
	CallLimit time.Duration // how long a call waits for its turn or for the journal; 0: 15 s
	Journal   Journal       // nil: nothing is stored
}

// callLimit is longer than the journal is patient with the end of a run.
const callLimit = 15 * time.Second

// Store implements store.Store in memory. Methods are safe for concurrent use.
type Store struct {
	opts  Options
	index index
	conns conns
	slots slots

	generation atomic.Uint64 // 0 for ever: nothing is ever lost

	mu       sync.RWMutex
	closed   bool
	limits   atomic.Pointer[store.Limits]
	sessions map[string]*session
	behind   map[*session]struct{} // the journal does not have all of them
}

var (
	_ store.Store    = (*Store)(nil)
	_ store.Recovery = (*Store)(nil)
	_ store.Slots    = (*Store)(nil)
)

// New makes an empty store.
func New(o Options) *Store {
	if o.Clock == nil {
		o.Clock = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Random == nil {
		o.Random = randomText
	}
	if o.CallLimit == 0 {
		o.CallLimit = callLimit
	}
	st := &Store{
		opts: o, sessions: make(map[string]*session), behind: make(map[*session]struct{}),
		index: index{members: make(map[string]member)}, conns: conns{records: make(map[string]connection), limit: maxConnections},
		slots: slots{gateways: make(map[string]*places)},
	}
	if o.FallsBack {
		st.generation.Store(1)
	}
	st.SetLimits(o.Limits)
	return st
}

// SetLimits changes the limits for what comes; what is there already stays. The
// zero value stands for the defaults.
func (st *Store) SetLimits(l store.Limits) {
	if l == (store.Limits{}) {
		l = store.DefaultLimits()
	}
	st.limits.Store(&l)
}

func randomText(n int) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

func (st *Store) random(n int) string { return st.opts.Random(n) }

// Now implements store.Store.
func (st *Store) Now() int64 { return st.opts.Clock() }

// Close refuses operations from now on; those under way end by themselves.
func (st *Store) Close() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.closed = true
	return nil
}

var (
	errClosed = fmt.Errorf("%w: store is closed", store.ErrUnavailable)
	// ErrCursor refuses a list cursor that no list has answered.
	ErrCursor = fmt.Errorf("%w: not a cursor of this list", store.ErrUnavailable)
	errSID    = fmt.Errorf("%w: a session id has 1 to 200 bytes of UTF-8 without control characters", store.ErrUnavailable)
)

func checkSID(sid string) error {
	if sid == "" || len(sid) > 200 || !utf8.ValidString(sid) {
		return errSID
	}
	for _, r := range sid {
		if r < 0x20 || (r >= 0x7f && r < 0xa0) {
			return errSID
		}
	}
	return nil
}

// lookup returns the session in memory, with a place for it if there is none.
func (st *Store) lookup(sid string, add bool) (*session, error) {
	if err := checkSID(sid); err != nil {
		return nil, err
	}
	st.mu.RLock()
	s, closed := st.sessions[sid], st.closed
	st.mu.RUnlock()
	if closed {
		return nil, errClosed
	}
	if s != nil || !add {
		return s, nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if s = st.sessions[sid]; s == nil {
		s = newSession(sid)
		st.sessions[sid] = s
	}
	return s, nil
}

func newSession(sid string) *session {
	s := &session{sid: sid, phase: phaseOf(sid), turn: make(chan struct{}, 1)}
	s.Head = store.Origin
	return s
}

// take waits for the turn of a session and makes sure that it is loaded and that
// what has run out is gone.
func (st *Store) take(ctx context.Context, sid string) (*session, int64, error) {
	for {
		s, err := st.lookup(sid, true)
		if err != nil {
			return nil, 0, err
		}
		if err := st.line(ctx, s); err != nil {
			return nil, 0, err
		}
		if s.gone {
			<-s.turn
			continue
		}
		if !s.loaded {
			if err := st.load(ctx, s); err != nil {
				st.release(s)
				return nil, 0, err
			}
		}
		now := st.Now()
		s.used = now
		st.expire(s, now)
		return s, now, nil
	}
}

// line waits for the turn of a session.
func (st *Store) line(ctx context.Context, s *session) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, st.opts.CallLimit)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: session is busy: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// release ends a turn. A session of which nothing is known leaves memory.
func (st *Store) release(s *session) {
	if s.Incarnation == "" && len(s.ledger.records) == 0 {
		st.forget(s, func() bool { return true })
	}
	<-s.turn
}

// forget takes a session out of memory if nobody subscribes to it, the journal
// has all of it, and the caller agrees. The caller holds the turn.
func (st *Store) forget(s *session, agree func() bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.subs) == 0 && !s.dirty.any() && agree() {
		s.gone = true
		delete(st.sessions, s.sid)
	}
}

// load reads a session from the journal. The caller holds the turn.
func (st *Store) load(ctx context.Context, s *session) error {
	var img *Image
	if j := st.opts.Journal; j != nil {
		var err error
		if img, err = j.Load(ctx, s.sid); err != nil {
			return loadError(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.readied = true, true
	if img == nil || img.Root == nil {
		return nil
	}
	s.Root = *img.Root
	if s.Boot != st.opts.Boot {
		s.newChain(st.opts.Boot, st.random(6), img.Log)
	}
	for _, q := range img.Queue {
		s.queue = append(s.queue, queued{q.Seq, q.Item})
	}
	s.ledger = loadLedger(img.Ledger)
	s.active, s.checkpoint = img.Active, img.Checkpoint
	return nil
}

// newChain begins the log anew in another process. What was logged of the active
// run stays in it, as far as no checkpoint covers it, at offsets of the new chain.
func (s *session) newChain(boot, stamp string, entries []store.Entry) {
	s.Boot, s.Head, s.Covered = boot, store.Origin, 0
	for i, e := range entries {
		e.Offset, e.Stamp, e.Prev = s.Head.Offset+1, store.EntryStamp(stamp, i), s.Head.Stamp
		s.log = append(s.log, e)
		s.Head = e.Position()
	}
	s.dirty.checkpoint = true // the journal has them at offsets of the old one
}

func phaseOf(sid string) (phase uint8) {
	for i := range len(sid) {
		phase = 31*phase + sid[i]
	}
	return phase
}

func loadError(err error) error {
	if errors.Is(err, store.ErrTooNew) || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// read returns a session for reading, loaded, or nil if nothing is known of it.
func (st *Store) read(ctx context.Context, sid string) (*session, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	s, err := st.lookup(sid, st.opts.Journal != nil)
	if s == nil || err != nil {
		return nil, err
	}
	s.mu.RLock()
	ready := s.readied && !s.gone
	s.mu.RUnlock()
	if ready {
		return s, nil
	}
	s, _, err = st.take(ctx, sid)
	if err != nil {
		return nil, err
	}
	st.release(s)
	return s, nil
}

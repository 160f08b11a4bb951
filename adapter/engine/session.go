package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// recentEnding is how long after a written ending a click on Stop is taken to
// have meant the run that ended (contract 5.5).
const recentEnding = 500 * time.Millisecond

// session is the actor of one session on this node: its members, the place up to
// which the log has been delivered to them, and the run if this node owns it.
type session struct {
	e    *Engine
	sid  string
	refs int // guarded by Engine.mu
	box  mailbox

	// Read outside the box.
	appending atomic.Bool  // the owner has a batch in flight and will look at the head itself
	hinted    atomic.Int64 // highest offset a hint has spoken of
	delivered atomic.Int64 // offset of pos
	removed   atomic.Bool  // a hint has said that the session was deleted
	bound     atomic.Value // string: ep
	live      atomic.Bool  // a run is active, as far as the log was read
	watched   atomic.Int32 // members

	snapshots snapshotGroup

	// Only inside the box.
	open    bool
	sub     store.Subscription
	ep      string // incarnation, "" while the session does not exist
	owner   string
	profile string
	pos     store.Position
	members map[Socket]*member
	runner  *runner
	queue   queueCache
	waiting int         // messages in the queue, as the log last said
	ahead   ahead       // what members were shown that is not in the log yet
	again   bool        // the log is looked at again before long, since it could not be read
	latest  store.Entry // the own entry being delivered; kept here to be used again
}

// member is one socket that follows the session.
type member struct {
	sock    Socket
	pos     store.Position
	shown   string    // run whose ending the socket is owed
	ended   string    // run of the last ending written to it
	endedAt time.Time // and when
	behind  bool      // its buffer was full; the log catches it up
	unread  bool      // its part of the log could not be read; it is tried again
	held    bool      // it has asked for a snapshot, which must not be older than what it was sent
	passed  int64     // of the entries shown ahead of the log: the next one the log will bring
	ahead   int64     // and the next one to be shown; -1: the log comes first
}

func newSession(e *Engine, sid string) *session {
	return &session{e: e, sid: sid, members: map[Socket]*member{}, queue: queueCache{}}
}

// ensureOpen subscribes to the log and finds its head, once.
func (s *session) ensureOpen(ctx context.Context) error {
	var err error
	s.box.do(func() {
		if s.open {
			return
		}
		var sub store.Subscription
		if sub, err = s.e.cfg.Store.Subscribe(ctx, s.sid, s.hint); err != nil {
			return
		}
		var head store.Session
		if head, err = s.e.head(ctx, s.sid); err != nil {
			sub.Close()
			return
		}
		s.sub, s.open = sub, true
		s.bind(head)
		s.moveTo(head.Head)
	})
	return err
}

// shut runs when nobody holds the session any more.
func (s *session) shut() {
	if s.open {
		s.sub.Close()
		s.open = false
		s.countQueue(0)
	}
}

// countQueue keeps the metric of waiting messages: those of the sessions known
// here.
func (s *session) countQueue(n int) {
	if n != s.waiting {
		s.e.cfg.Metrics.QueueLength(n - s.waiting)
		s.waiting = n
	}
}

// bind makes an incarnation the current one.
func (s *session) bind(head store.Session) {
	s.ep, s.owner, s.profile = head.Incarnation, head.Owner, head.Profile
	s.bound.Store(s.ep)
	s.countQueue(head.QueueLength)
	s.queue, s.ahead.acked = queueCache{}, 0
	s.live.Store(head.Busy())
}

func (s *session) moveTo(p store.Position) {
	s.pos = p
	s.delivered.Store(p.Offset)
}

// hint is called by the store; it must not block.
func (s *session) hint(h store.Hint) {
	for {
		seen := s.hinted.Load()
		if h.Head.Offset <= seen || s.hinted.CompareAndSwap(seen, h.Head.Offset) {
			break
		}
	}
	if h.Deleted {
		s.removed.Store(true)
	}
	if h.Deleted || h.Established || !s.appending.Load() && !s.knows(h) {
		s.wake()
	}
}

// knows reports whether a hint speaks of what has been delivered. A store that fell
// back may repeat offsets; that is noticed by its generation.
func (s *session) knows(h store.Hint) bool {
	return h.Incarnation != "" && s.bound.Load() == h.Incarnation && h.Head.Offset <= s.delivered.Load()
}

// wake lets the tail look at the log soon. A full box loses nothing: the next
// hint, append or resume looks again.
func (s *session) wake() { s.visit(s.follow) }

// visit has f run in the box soon and keeps the actor until then. Nothing happens if
// nobody holds it any more, or the box is full.
func (s *session) visit(f func()) {
	s.e.mu.Lock()
	held := s.refs > 0
	if held {
		s.refs++
	}
	s.e.mu.Unlock()
	if !held {
		return
	}
	posted := s.box.post(func() {
		f()
		s.e.release(s)
	})
	if !posted {
		s.e.release(s)
	}
}

// mayOpen reports whether p may follow the session as it is now. Whoever waits
// for a session that does not exist yet may wait.
func (s *session) mayOpen(p *auth.Principal) bool {
	return s.ep == "" || p.MayOpen(s.owner, s.profile)
}

// join makes a socket a member at a place of the log, or moves it there, and
// sends what lies between that place and the tail.
func (s *session) join(sock Socket, at store.Position, shown string) *member {
	m := s.members[sock]
	if m == nil {
		if !s.e.enter(sock, s) {
			return nil
		}
		m = &member{sock: sock}
		s.members[sock] = m
		s.countMember(1)
	}
	m.pos, m.shown, m.behind, m.unread, m.held = at, shown, false, false, false
	m.passed, m.ahead = 0, -1
	s.catchUp(m)
	return m
}

// waits reports whether the log is not to be delivered to the member for now.
func (m *member) waits() bool { return m.behind || m.unread || m.held }

// hold stops delivery to a member that asks for a snapshot; it is not needed by
// others.
func (s *session) hold(sock Socket) {
	s.box.do(func() {
		if m := s.members[sock]; m != nil {
			m.held = true
		}
	})
}

// unhold goes on with delivery to a member that has not got its snapshot.
func (s *session) unhold(sock Socket) {
	s.box.do(func() {
		if m := s.members[sock]; m != nil && m.held {
			m.held = false
			s.catchUp(m)
		}
	})
}

// drop ends a membership for good.
func (s *session) drop(m *member) {
	if s.leave(m) {
		m.sock.Left(s.sid)
	}
}

// leave ends a membership that the client may take up again when it comes back.
func (s *session) leave(m *member) bool {
	if s.members[m.sock] != m {
		return false
	}
	delete(s.members, m.sock)
	s.countMember(-1)
	s.e.exit(m.sock, s)
	return true
}

// countMember counts a membership that has begun (1) or ended (-1).
func (s *session) countMember(delta int) {
	s.e.cfg.Metrics.Watchers(delta)
	s.watched.Add(int32(delta))
	if before := len(s.members) - delta; before == 0 || len(s.members) == 0 {
		s.e.cfg.Metrics.Rooms(delta)
	}
}

func (s *session) dropSocket(sock Socket) {
	if m := s.members[sock]; m != nil {
		s.drop(m)
	}
}

// rebind follows the session into another incarnation, or into none: members are
// authorised anew before they get a single entry of it (H18).
func (s *session) rebind(head store.Session) {
	s.bind(head)
	s.moveTo(store.Origin)
	s.ahead.first = nil
	for _, m := range s.members {
		if !s.mayOpen(m.sock.Principal()) {
			s.drop(m)
			continue
		}
		m.pos, m.shown, m.behind, m.unread = store.Origin, "", false, false // one that is held stays so
	}
}

func (s *session) room(m *member) Room {
	return Room{SessionID: s.sid, Incarnation: s.ep, Position: m.pos, ShownRun: m.shown}
}

func (s *session) logger() *zap.Logger { return s.e.log.With(zap.String("session", s.sid)) }

// snapshotGroup lets callers that come at the same time share one snapshot: a
// caller may use one that began after he asked.
type snapshotGroup struct {
	mu      sync.Mutex
	running *snapshotCall
	next    *snapshotCall
}

type snapshotCall struct {
	done chan struct{}
	snap store.Snapshot
	err  error
}

func (g *snapshotGroup) get(ctx context.Context, load func(context.Context) (store.Snapshot, error)) (store.Snapshot, error) {
	g.mu.Lock()
	var call *snapshotCall
	switch {
	case g.running == nil:
		call = &snapshotCall{done: make(chan struct{})}
		g.running = call
		go g.run(call, load)
	case g.next == nil:
		call = &snapshotCall{done: make(chan struct{})}
		g.next = call
	default:
		call = g.next
	}
	g.mu.Unlock()
	select {
	case <-call.done:
		return call.snap, call.err
	case <-ctx.Done():
		return store.Snapshot{}, ctx.Err()
	}
}

func (g *snapshotGroup) run(call *snapshotCall, load func(context.Context) (store.Snapshot, error)) {
	for call != nil {
		ctx, cancel := context.WithTimeout(context.Background(), resumeTimeout)
		call.snap, call.err = load(ctx)
		cancel()
		close(call.done)
		g.mu.Lock()
		call, g.next = g.next, nil
		g.running = call
		g.mu.Unlock()
	}
}

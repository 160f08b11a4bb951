package engine

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// readTimeout bounds one look at the log from inside a session's box.
const readTimeout = time.Second

// readLimit is the number of entries asked for at a time.
const readLimit = 256

// readAgain is the pause before a log that could not be read is looked at again.
const readAgain = 500 * time.Millisecond

// follow brings the tail to the head of the log and delivers what it passes. It
// runs inside the box.
func (s *session) follow() {
	if !s.open {
		return
	}
	for {
		ctx, cancel := context.WithTimeout(s.e.ctx, readTimeout)
		more, err := s.step(ctx)
		cancel()
		if err != nil {
			s.unreadable(err)
			return
		}
		if !more {
			return
		}
	}
}

// unreadable has the log looked at again a little later, once for the tail and all
// members that wait for it: a store that does not answer has lost nothing.
func (s *session) unreadable(err error) {
	if s.again || errors.Is(err, context.Canceled) {
		return
	}
	s.again = true
	s.logger().Debug("log not readable, tried again", zap.Error(err))
	s.e.spawn(func() {
		if pause(s.e.ctx, readAgain) == nil {
			s.box.do(s.readAgain) // does nothing if the actor has been shut meanwhile
		}
	})
}

func (s *session) readAgain() {
	s.again = false
	s.follow()
	for _, m := range s.members {
		if m.unread {
			m.unread = false
			s.catchUp(m)
		}
	}
}

// step reads one page of the log. It reports whether there may be more.
func (s *session) step(ctx context.Context) (more bool, err error) {
	if s.ep == "" {
		head, err := s.e.head(ctx, s.sid)
		if err != nil || !head.Exists() {
			return false, err
		}
		s.rebind(head)
	}
	// Looked at before the log: what a deletion wrote last is then in what is read.
	removed := s.removed.Swap(false)
	res, err := s.e.cfg.Store.ReadLog(ctx, s.sid, s.ep, s.pos, readLimit)
	if err == nil && res.Code != store.OK {
		return s.lost(ctx)
	}
	if err == nil {
		err = s.fetchQueued(ctx, res.Entries)
	}
	if err == nil {
		s.deliverAll(res.Entries)
		s.countLag(res.Entries)
		more = len(res.Entries) > 0 && s.pos != res.Head
	}
	if removed && (more || err != nil) {
		s.removed.Store(true)
	}
	if removed && !more && err == nil {
		return s.gone(ctx)
	}
	return more, err
}

// countLag measures how late entries of another node's run come to members here.
func (s *session) countLag(entries []store.Entry) {
	if n := len(entries); n > 0 && s.runner == nil && len(s.members) > 0 && s.e.lossy() {
		ms := max(0, s.e.cfg.Store.Now()-entries[n-1].Time)
		s.e.cfg.Metrics.LogLag(time.Duration(ms) * time.Millisecond)
	}
}

// lost finds out why the tail's place cannot be read: the session is gone or made
// anew, or the log has moved past it.
func (s *session) lost(ctx context.Context) (more bool, err error) {
	head, err := s.e.head(ctx, s.sid)
	if err != nil {
		return false, err
	}
	if head.Incarnation != s.ep {
		return s.reborn(head), nil
	}
	s.moveTo(head.Head)
	s.abandonAll()
	return false, nil
}

// gone looks at the root after a hint that the session was deleted.
func (s *session) gone(ctx context.Context) (more bool, err error) {
	head, err := s.e.head(ctx, s.sid)
	if err != nil || head.Incarnation == s.ep {
		return false, err
	}
	return s.reborn(head), nil
}

// reborn leaves the incarnation that has ended. It reports whether there is a new
// one to be followed.
func (s *session) reborn(head store.Session) bool {
	switch {
	case s.e.settling():
		s.abandonAll() // lost by the store, perhaps for the moment only
	case !head.Exists():
		s.announceDeleted()
	}
	s.rebind(head)
	return head.Exists()
}

// abandon closes a member whose place in the log is gone: it comes back and gets
// a snapshot. It is told first how the run ended that it still shows.
func (s *session) abandon(m *member) {
	if m.shown != "" {
		if ev := s.e.endingOf(s.e.ctx, s.sid, m.shown); ev != nil {
			r := s.unlogged(m)
			r.ShownRun = ""
			m.sock.Send(ev, r)
		}
	}
	s.leave(m)
	m.sock.Close(CloseBehind)
}

// deliverBatch is the owner's way around the log: its own entries, just
// acknowledged, are delivered from memory if nothing else was written in between.
func (s *session) deliverBatch(entries []store.NewEntry, b *store.Batch, res *store.OwnerResult) {
	again := res.Code == store.Dup && len(entries) > 0 && res.Last.Stamp != store.EntryStamp(b.Stamp, len(entries)-1)
	if !s.open || again || s.pos != res.Before || res.Last.Offset != res.Before.Offset+int64(len(entries)) {
		s.follow()
		return
	}
	prev := res.Before
	for i := range entries {
		s.latest = store.Entry{
			NewEntry: entries[i], Offset: prev.Offset + 1, Stamp: store.EntryStamp(b.Stamp, i), Prev: prev.Stamp,
			Time: res.Time, Run: b.Run, QueueLength: res.QueueLength,
		}
		s.deliver(&s.latest)
		prev = s.pos
	}
}

func (s *session) deliverAll(entries []store.Entry) {
	for i := range entries {
		s.deliver(&entries[i])
	}
}

// deliver hands one entry to every member and moves the tail behind it.
func (s *session) deliver(en *store.Entry) {
	s.moveTo(en.Position())
	s.e.cfg.Metrics.Delta(deltaCount(en))
	if en.Kind == store.KindQueue {
		s.countQueue(en.QueueLength)
	}
	s.note(en)
	if len(s.members) == 0 {
		s.queue.observe(en)
	} else {
		ev := s.render(en)
		for _, m := range s.members {
			s.send(m, en, ev)
		}
	}
	s.ahead.pass(s, en)
}

// note acts on what an entry says to this node itself.
func (s *session) note(en *store.Entry) {
	if en.Kind == store.KindAbort && s.runner != nil {
		s.runner.abort(en.Run)
	}
	if live := en.Kind != store.KindEnd; en.Run != "" && live != s.live.Load() {
		s.live.Store(live)
	}
}

func (s *session) abandonAll() {
	s.ahead.first = nil
	for _, m := range s.members {
		s.abandon(m)
	}
}

func deltaCount(en *store.Entry) int {
	if en.Name == chatrun.EventMessageDelta {
		return 1
	}
	return 0
}

// send queues one entry to one member, in order and once.
func (s *session) send(m *member, en *store.Entry, ev *Event) {
	if m.waits() || en.Offset <= m.pos.Offset {
		return
	}
	at, shown := en.Position(), m.shown
	number, numbered := s.ahead.number(en, m.passed)
	seen := numbered && number < m.ahead
	passed := m.passed
	if numbered {
		passed = number + 1
	}
	switch {
	case en.Kind == store.KindStarted:
		shown = en.Run
	case en.Kind == store.KindEnd && en.Run == m.shown:
		shown = ""
	}
	if ev != nil && !seen && (en.Except == "" || en.Except != m.sock.ID()) {
		if !m.sock.Send(ev, s.roomAt(m, at, shown, passed)) {
			s.fallBehind(m)
			return
		}
	}
	m.pos, m.shown = at, shown
	m.passed = passed
	if numbered {
		m.ahead = max(m.ahead, passed)
	}
	if en.Kind == store.KindEnd {
		m.ended, m.endedAt = en.Run, time.Now()
	}
}

// fallBehind stops live delivery to a member whose buffer is full; the log
// catches it up when there is room again, so that nobody else waits for it.
func (s *session) fallBehind(m *member) {
	m.behind = true
	s.e.cfg.Metrics.SlowConsumer("behind")
	m.sock.Drained(func() {
		s.box.post(func() {
			if s.members[m.sock] == m && m.behind {
				m.behind = false
				s.catchUp(m)
			}
		})
	})
}

// catchUp sends a member what lies between its place and the tail.
func (s *session) catchUp(m *member) {
	for !m.waits() && m.pos != s.pos && m.pos.Offset < s.pos.Offset {
		ctx, cancel := context.WithTimeout(s.e.ctx, readTimeout)
		res, err := s.e.cfg.Store.ReadLog(ctx, s.sid, s.ep, m.pos, readLimit)
		if err == nil {
			err = s.fetchQueued(ctx, res.Entries)
		}
		cancel()
		if err != nil {
			m.unread = true
			s.unreadable(err)
			return
		}
		if res.Code != store.OK || len(res.Entries) == 0 {
			s.abandon(m)
			return
		}
		for i := range res.Entries {
			if en := &res.Entries[i]; en.Offset <= s.pos.Offset {
				s.send(m, en, s.render(en))
			}
		}
	}
}

// announceDeleted tells members that the session they follow has gone.
func (s *session) announceDeleted() {
	ev := &Event{Name: chatrun.EventSessionDeleted, Payload: chatrun.SessionDeleted(s.sid)}
	for _, m := range s.members {
		m.sock.Send(ev, Room{})
	}
}

package engine

import (
	"strconv"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// stampLength is the length of a call's stamp; an entry's index in the call follows.
const stampLength = 6

// ahead is what of the own run is built and not yet seen in the log, and who was
// shown it all the same (contract 9.2). Its entries are numbered. A member is shown
// one only if it has everything before it, so that its order is that of the log;
// when the log brings an entry, it is sent to those who have not seen it. It belongs
// to the session's box.
type ahead struct {
	first  map[string]int64 // number of a batch's first entry, by the batch's stamp
	next   int64            // number of the next entry to be built
	passed int64            // the tail has passed the entries before this number
	last   string           // stamp of the last batch that the tail has met
	acked  int64            // offset of the last own entry that the log has for certain
}

// add numbers the entries of a batch that waits for the store, and shows them.
func (a *ahead) add(s *session, b *store.Batch, show bool) {
	if len(b.Events) == 0 || a.last == b.Stamp {
		return // the log had it before its writer was told
	}
	if a.first == nil {
		a.first = map[string]int64{}
		a.passed = a.next
		for _, m := range s.members {
			m.passed, m.ahead = a.next, -1
			// Behind an entry that could not be read the log may have own ones.
			if !m.waits() && m.pos == s.pos && s.pos.Offset >= a.acked {
				m.ahead = a.next
			}
		}
	}
	a.first[b.Stamp] = a.next
	for i := range b.Events {
		if show {
			a.show(s, b, i)
		}
		a.next++
	}
	if show && len(s.members) > 0 {
		s.e.cfg.Metrics.Volatile(1)
	}
}

// show sends the entry that is to be numbered next to whoever has all before it.
func (a *ahead) show(s *session, b *store.Batch, i int) {
	en := store.Entry{NewEntry: b.Events[i], Run: b.Run, QueueLength: s.waiting}
	var ev *Event
	for _, m := range s.members {
		if m.ahead != a.next || m.waits() {
			continue
		}
		if ev == nil {
			ev = s.render(&en)
		}
		if en.Kind == store.KindStarted {
			m.shown = en.Run
		}
		if ev != nil && !m.sock.Send(ev, s.unlogged(m)) {
			s.fallBehind(m)
			continue
		}
		m.ahead++
	}
}

// unlogged is where a member stands while it is shown what is not in the log.
func (s *session) unlogged(m *member) Room {
	r := s.room(m)
	r.Volatile = true
	return r
}

// roomAt is where a member stands behind an entry of the log. It is volatile as long
// as the member has seen more than the log has brought, passed being the next entry
// of that to come.
func (s *session) roomAt(m *member, at store.Position, shown string, passed int64) Room {
	return Room{
		SessionID: s.sid, Incarnation: s.ep, Position: at, ShownRun: shown,
		Volatile: len(s.ahead.first) > 0 && m.ahead > passed,
	}
}

// rename gives a batch that waits another stamp; the log may bring either.
func (a *ahead) rename(from, to string) {
	if first, ok := a.first[from]; ok {
		a.first[to] = first
	}
}

// number answers the number of a log entry; expected is the reader's next one. A
// queue entry that the store has put into the batch has none and shifts those behind
// it, so that only the first entry is told by its index.
func (a *ahead) number(en *store.Entry, expected int64) (int64, bool) {
	if len(en.Stamp) <= stampLength || en.Kind == store.KindQueue {
		return 0, false
	}
	first, ok := a.first[en.Stamp[:stampLength]]
	if !ok {
		return 0, false
	}
	if expected > first {
		return expected, true
	}
	i, err := strconv.ParseInt(en.Stamp[stampLength:], 10, 64)
	return first + i, err == nil
}

// pass notes that the tail has met an entry of the log; called behind send.
func (a *ahead) pass(s *session, en *store.Entry) {
	if en.Run != "" && len(en.Stamp) > stampLength {
		a.last = en.Stamp[:stampLength]
	}
	if a.first == nil {
		return
	}
	if n, ok := a.number(en, a.passed); ok {
		a.passed = n + 1
	}
	if a.passed < a.next {
		return
	}
	for _, m := range s.members {
		if m.pos != s.pos {
			return
		}
	}
	a.first = nil
}

// abandon closes those who have seen what will not come into the log.
func (a *ahead) abandon(s *session) {
	if a.first == nil {
		return
	}
	for _, m := range s.members {
		if m.ahead > a.passed {
			s.abandon(m)
		}
	}
	a.first = nil
}

package engine

import (
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// follower is a socket's side of its memberships: the sessions it follows, oldest
// activity first. It is guarded by Engine.mu.
type follower struct {
	sessions []*session
}

// enter records that a socket follows a session; the membership holds the actor.
// It answers false if the socket is gone: a socket is gone before Leave is called
// for it, so that none enters behind its own Leave.
func (e *Engine) enter(sock Socket, s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if sock.Gone() {
		return false
	}
	f := e.followers[sock]
	if f == nil {
		f = &follower{}
		e.followers[sock] = f
	}
	f.sessions = append(f.sessions, s)
	s.refs++
	if max := e.cfg.Limits().RoomsPerSocket; max > 0 && len(f.sessions) > max {
		oldest := f.sessions[0]
		oldest.refs++
		oldest.box.post(func() {
			oldest.dropSocket(sock)
			e.release(oldest)
		})
	}
	return true
}

// exit records that a socket does not follow a session any more.
func (e *Engine) exit(sock Socket, s *session) {
	e.mu.Lock()
	f := e.followers[sock]
	i := -1
	if f != nil {
		i = slices.Index(f.sessions, s)
	}
	if i >= 0 {
		f.sessions = slices.Delete(f.sessions, i, i+1)
	}
	if f != nil && len(f.sessions) == 0 {
		delete(e.followers, sock)
	}
	e.mu.Unlock()
	if i >= 0 {
		e.release(s)
	}
}

// followed answers the sessions of a socket, each held for the caller.
func (e *Engine) followed(sock Socket) []*session {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.followers[sock]
	if f == nil {
		return nil
	}
	out := slices.Clone(f.sessions)
	for _, s := range out {
		s.refs++
	}
	return out
}

// Leave ends all memberships of a socket that is gone. Runs go on (CR-10).
func (e *Engine) Leave(sock Socket) {
	for _, s := range e.followed(sock) {
		s.box.do(func() { s.dropSocket(sock) })
		e.release(s)
	}
}

// Reauthorize ends the memberships that a socket's principal of now may not have.
func (e *Engine) Reauthorize(sock Socket) {
	for _, s := range e.followed(sock) {
		s.box.do(func() {
			if m := s.members[sock]; m != nil && !s.mayOpen(sock.Principal()) {
				s.drop(m)
			}
		})
		e.release(s)
	}
}

// Rooms answers the sessions a socket follows and where it stands in each.
func (e *Engine) Rooms(sock Socket) []Room {
	var rooms []Room
	for _, s := range e.followed(sock) {
		s.box.do(func() {
			if m := s.members[sock]; m != nil {
				rooms = append(rooms, s.room(m))
			}
		})
		e.release(s)
	}
	return rooms
}

// guardOf is the guard of a stored session.
func guardOf(head store.Session) store.Guard {
	return store.Guard{Owner: head.Owner, Profile: head.Profile}
}

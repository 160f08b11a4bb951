package socketio

import (
	"errors"
	"slices"
)

// ErrTooManyRooms: the socket is in as many rooms as it may be.
var ErrTooManyRooms = errors.New("socket.io: too many rooms")

// Join puts the socket into a room of its namespace.
func (s *Socket) Join(room string) error {
	ns := s.ns
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if s.phase.Load() == phaseEnded {
		return ErrClosed
	}
	if slices.Contains(s.rooms, room) {
		return nil
	}
	if len(s.rooms) >= s.conn.opts.MaxRooms {
		return ErrTooManyRooms
	}
	s.rooms = append(s.rooms, room)
	members := ns.rooms[room]
	if members == nil {
		members = make(map[*Socket]struct{})
		ns.rooms[room] = members
	}
	members[s] = struct{}{}
	return nil
}

// Leave takes the socket out of a room.
func (s *Socket) Leave(room string) {
	s.ns.mu.Lock()
	defer s.ns.mu.Unlock()
	if i := slices.Index(s.rooms, room); i >= 0 {
		s.rooms = slices.Delete(s.rooms, i, i+1)
		s.ns.removeLocked(s, room)
	}
}

// Rooms lists the rooms the socket is in.
func (s *Socket) Rooms() []string {
	s.ns.mu.RLock()
	defer s.ns.mu.RUnlock()
	return slices.Clone(s.rooms)
}

func (ns *namespace) removeLocked(s *Socket, room string) {
	delete(ns.rooms[room], s)
	if len(ns.rooms[room]) == 0 {
		delete(ns.rooms, room)
	}
}

func (ns *namespace) removeAll(s *Socket) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	for _, room := range s.rooms {
		ns.removeLocked(s, room)
	}
	s.rooms = nil
}

// Room addresses the sockets in a room.
type Room struct {
	ns   *namespace // nil if there is no such namespace
	name string
}

// ToRoom addresses the sockets in a room of a namespace.
func (s *Server) ToRoom(namespace, room string) Room {
	return Room{ns: s.namespaces[namespace], name: room}
}

// Sockets lists the members.
func (r Room) Sockets() []*Socket {
	if r.ns == nil {
		return nil
	}
	r.ns.mu.RLock()
	defer r.ns.mu.RUnlock()
	members := r.ns.rooms[r.name]
	if len(members) == 0 {
		return nil
	}
	out := make([]*Socket, 0, len(members))
	for s := range members {
		out = append(out, s)
	}
	return out
}

// Emit encodes an event once and sends it to every member. A member that is
// too slow does not get it.
func (r Room) Emit(event string, args ...any) error {
	if r.ns == nil {
		return nil
	}
	p, err := encode(typeEvent, r.ns.name, noID, event, args)
	if err != nil {
		return err
	}
	r.Send(p)
	return nil
}

// Send sends an encoded event to every member and returns how many took it.
func (r Room) Send(p *Packet) (sent int) {
	for _, s := range r.Sockets() {
		if s.Send(p, "") == nil {
			sent++
		}
	}
	return sent
}

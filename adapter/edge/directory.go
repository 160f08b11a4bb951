package edge

import (
	"maps"
	"slices"
	"sync"
)

// directory knows the open sockets of a core.
type directory struct {
	mu      sync.Mutex
	sockets map[*socket]struct{}
	ids     map[string]*socket // the newest of each connection id
	pids    map[string]*socket // until the last save of the record
	perUser map[string]int
}

func (d *directory) init() {
	d.sockets = make(map[*socket]struct{})
	d.ids = make(map[string]*socket)
	d.pids = make(map[string]*socket)
	d.perUser = make(map[string]int)
}

// add makes a socket known unless its user has limit sockets already; 0 is no
// limit.
func (d *directory) add(s *socket, limit int) bool {
	user := s.user
	d.mu.Lock()
	defer d.mu.Unlock()
	if limit > 0 && d.perUser[user] >= limit {
		return false
	}
	d.sockets[s] = struct{}{}
	d.ids[s.id] = s
	d.perUser[user]++
	if s.pid != "" {
		d.pids[s.pid] = s
	}
	return true
}

// remove forgets a socket, except as the holder of its record; a second call does
// nothing.
func (d *directory) remove(s *socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.sockets[s]; !ok {
		return
	}
	delete(d.sockets, s)
	if d.ids[s.id] == s {
		delete(d.ids, s.id)
	}
	if d.perUser[s.user]--; d.perUser[s.user] == 0 {
		delete(d.perUser, s.user)
	}
}

// settle forgets a socket as the holder of its record.
func (d *directory) settle(s *socket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pids[s.pid] == s {
		delete(d.pids, s.pid)
	}
}

// byPID finds the socket that holds a connection record, also one that is gone but
// whose record is still being saved.
func (d *directory) byPID(pid string) *socket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pids[pid]
}

// byID finds the newest open socket of a connection id.
func (d *directory) byID(id string) *socket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[id]
}

func (d *directory) all() []*socket {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.AppendSeq(make([]*socket, 0, len(d.sockets)), maps.Keys(d.sockets))
}

func (d *directory) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.sockets)
}

func (d *directory) users() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.perUser)
}

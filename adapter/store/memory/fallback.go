package memory

import (
	"maps"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Mark is the whole state of a store at some moment.
type Mark struct {
	sessions map[string]image
	members  map[string]member
	records  map[string]connection
	gateways map[string]*places
}

// image is what a session holds.
type image struct {
	state
	log        []store.Entry
	rows       []store.Row
	queue      []queued
	ledger     ledger
	active     *store.Item
	checkpoint []byte
}

// Mark takes a copy of everything, for a later FallBack. It is for tests of a
// store that may fall back; no other call may be under way.
func (st *Store) Mark() *Mark {
	m := &Mark{
		sessions: make(map[string]image, len(st.sessions)), members: maps.Clone(st.index.members),
		records: maps.Clone(st.conns.records), gateways: copyPlaces(st.slots.gateways),
	}
	for sid, s := range st.sessions {
		m.sessions[sid] = image{
			state: s.state, log: slices.Clip(s.log), rows: slices.Clip(s.rows), queue: s.queue,
			ledger: s.ledger.clone(), active: s.active, checkpoint: s.checkpoint,
		}
	}
	return m
}

// FallBack puts everything back to a mark, as a server process does that takes the
// place of another one and lacks its last writes. The generation grows, and
// subscriptions are established anew. No other call may be under way. The store
// must have been made with FallsBack.
func (st *Store) FallBack(m *Mark) {
	st.generation.Add(1)
	st.index.members = maps.Clone(m.members)
	st.conns.records = maps.Clone(m.records)
	st.slots.gateways = copyPlaces(m.gateways)
	for sid := range m.sessions {
		if st.sessions[sid] == nil {
			st.sessions[sid] = newSession(sid)
		}
	}
	for _, sid := range slices.Sorted(maps.Keys(st.sessions)) {
		st.sessions[sid].fallBack(m.sessions[sid])
	}
}

func (s *session) fallBack(to image) {
	if to.Head == (store.Position{}) {
		to.Head = store.Origin // there was no such session
	}
	s.mu.Lock()
	s.state, s.log, s.rows, s.queue = to.state, to.log, to.rows, to.queue
	s.ledger, s.active, s.checkpoint = to.ledger.clone(), to.active, to.checkpoint
	s.loaded, s.readied = true, true
	hint := store.Hint{Established: true, Head: s.Head}
	if s.exists() {
		hint.Incarnation = s.Incarnation
	}
	subs := slices.Collect(maps.Keys(s.subs))
	s.mu.Unlock()
	for _, sub := range subs {
		sub.notify(hint)
	}
}

func (l *ledger) clone() ledger {
	return ledger{records: maps.Clone(l.records), order: slices.Clone(l.order)}
}

func copyPlaces(from map[string]*places) map[string]*places {
	to := make(map[string]*places, len(from))
	for gateway, p := range from {
		to[gateway] = &places{until: maps.Clone(p.until), waiting: slices.Clone(p.waiting)}
	}
	return to
}

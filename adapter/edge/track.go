package edge

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxTokenRooms is how many moved rooms an offset token names; beyond it the
// rooms fall back to a snapshot.
const maxTokenRooms = 16

// prefixLength is the length of the mark that ties an offset token to a pid.
const prefixLength = 4

// track is where one client stands in the sessions it follows (contract section
// 6). It is pure bookkeeping; the socket's lock guards it.
type track struct {
	prefix string // of the pid's hash; empty: recovery is off
	next   int    // next room index
	rooms  []trackedRoom
	hot    int // room of the last event, where the next one most likely belongs
}

type trackedRoom struct {
	index       int // names this room in tokens, never reused
	sid         string
	incarnation string
	last        store.Position // last queued to the client
	pinged      store.Position // last queued before the ping under way
	confirmed   store.Position // the client has certainly received it
	base        store.Position // confirmed, and acknowledged by the store
	shown       string
	ahead       bool // was shown what the log does not have yet
}

// pidPrefix returns the mark of a pid in its offset tokens. It stops a client
// that kept an offset of an earlier pid (H28).
func pidPrefix(pid string) string {
	sum := sha256.Sum256([]byte(pid))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:prefixLength]
}

func (t *track) find(sid string) int {
	if t.hot < len(t.rooms) && t.rooms[t.hot].sid == sid {
		return t.hot
	}
	return slices.IndexFunc(t.rooms, func(r trackedRoom) bool { return r.sid == sid })
}

// reserve enters a room that the client has asked for, so that the record names it
// before the first event of it is sent: whoever loses the connection in between is
// given the room all the same. It reports whether the room is new.
func (t *track) reserve(sid string) bool {
	if t.find(sid) >= 0 {
		return false
	}
	t.rooms = append(t.rooms, trackedRoom{index: t.next, sid: sid})
	t.next++
	return true
}

// unreserve forgets a room that the client asked for in vain, and reports whether it
// did.
func (t *track) unreserve(sid string) bool {
	i := t.find(sid)
	if i < 0 || !t.rooms[i].reserved() {
		return false
	}
	t.remove(i)
	return true
}

// reserved reports whether nothing of the room was sent so far.
func (r *trackedRoom) reserved() bool {
	return r.incarnation == "" && r.last == (store.Position{}) && !r.ahead
}

// moved is what move did, so that it can be taken back.
type moved struct {
	record bool // the saved record is out of date in more than positions
	at     int  // index of the room, -1: nothing moved
	before trackedRoom
	rooms  []trackedRoom // set if the list itself was changed
	next   int
}

// move records that an event of a room is being queued.
func (t *track) move(r engine.Room) moved {
	placed := r.Position != (store.Position{})
	if r.SessionID == "" || !placed && !r.Volatile {
		return moved{at: -1}
	}
	i := t.find(r.SessionID)
	var m moved
	switch {
	case i >= 0 && t.rooms[i].reserved():
		m.record = true
	case i < 0 || t.rooms[i].incarnation != r.Incarnation:
		m.record, m.rooms, m.next = true, slices.Clone(t.rooms), t.next
		if i >= 0 {
			t.remove(i)
		}
		t.rooms = append(t.rooms, trackedRoom{index: t.next, sid: r.SessionID, incarnation: r.Incarnation})
		t.next++
		i = len(t.rooms) - 1
	}
	room := &t.rooms[i]
	m.at, m.before = i, *room
	t.hot = i
	room.incarnation = r.Incarnation
	if placed {
		room.last = r.Position
	}
	room.ahead = r.Volatile
	if room.shown != r.ShownRun {
		room.shown = r.ShownRun
		m.record = true
	}
	return m
}

// restoreFrom takes a move back: its event was not queued after all.
func (t *track) restoreFrom(m moved) {
	switch {
	case m.at < 0:
	case m.record && m.rooms != nil:
		t.rooms, t.next, t.hot = m.rooms, m.next, 0
	default:
		t.rooms[m.at] = m.before
	}
}

// shows reports whether the ending of a run is owed in any room.
func (t *track) shows() bool {
	return slices.ContainsFunc(t.rooms, func(r trackedRoom) bool { return r.shown != "" })
}

func (t *track) remove(i int) {
	t.rooms = slices.Delete(t.rooms, i, i+1)
	t.hot = 0
}

// leave forgets a room and reports whether there was one.
func (t *track) leave(sid string) bool {
	i := t.find(sid)
	if i < 0 {
		return false
	}
	t.remove(i)
	return true
}

// ping marks the positions that a coming pong will confirm.
func (t *track) ping() {
	for i := range t.rooms {
		t.rooms[i].pinged = t.rooms[i].last
	}
}

// pong confirms what was queued before the ping and reports whether anything
// moved since the last acknowledged save.
func (t *track) pong() (moved bool) {
	for i := range t.rooms {
		r := &t.rooms[i]
		if r.pinged != (store.Position{}) {
			r.confirmed = r.pinged
		}
		moved = moved || r.confirmed != r.base
	}
	return moved
}

// saved takes over what the store has acknowledged.
func (t *track) saved(rooms []store.ConnRoom) {
	for i := range t.rooms {
		r := &t.rooms[i]
		j := slices.IndexFunc(rooms, func(c store.ConnRoom) bool { return c.Index == r.index })
		if j >= 0 {
			r.base = rooms[j].Base
		}
	}
}

// record returns the rooms as they are to be saved.
func (t *track) record() []store.ConnRoom {
	out := make([]store.ConnRoom, 0, len(t.rooms))
	for _, r := range t.rooms {
		out = append(out, store.ConnRoom{
			Index: r.index, SID: r.sid, Incarnation: r.incarnation, Base: r.confirmed, ShownRun: r.shown,
		})
	}
	return out
}

// token returns the offset of the packet being built: every room that moved
// since the acknowledged base, or "-" where those are too many to name. Where a
// room has been shown more than its position says, it is "-" and the run that each
// room shows: the saved record may be older, and nobody is told an ending twice.
func (t *track) token() string {
	if t.prefix == "" {
		return ""
	}
	out := make([]byte, 0, 40)
	out = append(out, t.prefix...)
	sep := byte('.')
	named := 0
	for i := range t.rooms {
		r := &t.rooms[i]
		if r.last == r.base && !r.ahead {
			continue
		}
		if r.ahead {
			return t.prefix + "." + tokenLost + t.shownRuns()
		}
		if named++; named > maxTokenRooms {
			return t.prefix + "." + tokenLost
		}
		out = append(out, sep)
		out = strconv.AppendInt(out, int64(r.index), 36)
		out = append(out, ':')
		out = strconv.AppendInt(out, r.last.Offset, 10)
		out = append(out, ':')
		out = append(out, r.last.Stamp...)
		sep = ','
	}
	if named == 0 {
		out = append(out, '.')
	}
	return string(out)
}

// Parts of tokens without positions.
const (
	tokenLost  = "-"
	tokenShown = "="
)

// shownRuns names the run of each room that shows one, if those are not too many.
func (t *track) shownRuns() string {
	out := []byte(tokenShown)
	named := 0
	for i := range t.rooms {
		r := &t.rooms[i]
		if r.shown == "" {
			continue
		}
		if named++; named > maxTokenRooms {
			return ""
		}
		if named > 1 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(r.index), 36)
		out = append(out, ':')
		out = append(out, r.shown...)
	}
	return string(out)
}

// offsetToken is a token as a client brought it back.
type offsetToken struct {
	lost  bool // "-": the positions are not known
	rooms map[int]store.Position
	// shown is the run of each room that shows one; nil: that is not known either.
	shown map[int]string
}

// maxTokenLength bounds what a client may send as an offset.
const maxTokenLength = 4 << 10

// parseToken reads an offset; ok is false if it does not belong to the pid, or is
// no offset at all. Whatever it claims is checked against the log by the reader.
func parseToken(pid, offset string) (tok offsetToken, ok bool) {
	prefix, rest, found := strings.Cut(offset, ".")
	if !found || len(offset) > maxTokenLength || prefix != pidPrefix(pid) {
		return offsetToken{}, false
	}
	if rest == "" {
		return offsetToken{}, true
	}
	if list, ok := strings.CutPrefix(rest, tokenLost); ok {
		tok.lost = true
		tok.shown, ok = parseTokenShown(list)
		return tok, ok
	}
	tok.rooms = make(map[int]store.Position)
	for part := range strings.SplitSeq(rest, ",") {
		index, position, ok := parseTokenRoom(part)
		if !ok || len(tok.rooms) >= maxTokenRooms {
			return offsetToken{}, false
		}
		tok.rooms[index] = position
	}
	return tok, true
}

func parseTokenShown(list string) (shown map[int]string, ok bool) {
	if list == "" {
		return nil, true
	}
	list, ok = strings.CutPrefix(list, tokenShown)
	if !ok {
		return nil, false
	}
	shown = make(map[int]string)
	if list == "" {
		return shown, true
	}
	for part := range strings.SplitSeq(list, ",") {
		name, run, found := strings.Cut(part, ":")
		i, err := strconv.ParseInt(name, 36, 32)
		if !found || err != nil || i < 0 || run == "" || len(shown) >= maxTokenRooms {
			return nil, false
		}
		shown[int(i)] = run
	}
	return shown, true
}

func parseTokenRoom(part string) (index int, p store.Position, ok bool) {
	name, rest, found := strings.Cut(part, ":")
	offset, stamp, found2 := strings.Cut(rest, ":")
	if !found || !found2 || stamp == "" {
		return 0, store.Position{}, false
	}
	i, err := strconv.ParseInt(name, 36, 32)
	o, err2 := strconv.ParseInt(offset, 10, 64)
	if err != nil || err2 != nil || i < 0 || o < 0 {
		return 0, store.Position{}, false
	}
	return int(i), store.Position{Offset: o, Stamp: stamp}, true
}

// restore sets up the track of a recovered connection and returns where each
// room is to be continued, in record order: from the later of the confirmed
// base and the client's token. A zero position asks for a snapshot.
func (t *track) restore(rooms []store.ConnRoom, tok offsetToken) []engine.Room {
	out := make([]engine.Room, 0, len(rooms))
	for index := range tok.rooms { // also of rooms that were left since
		t.next = max(t.next, index+1)
	}
	for _, r := range rooms {
		at := r.Base
		if p, ok := tok.rooms[r.Index]; ok && (at == (store.Position{}) || p.Offset > at.Offset) {
			at = p
		}
		shown := r.ShownRun
		if tok.shown != nil {
			shown = tok.shown[r.Index]
		}
		t.rooms = append(t.rooms, trackedRoom{
			index: r.Index, sid: r.SID, incarnation: r.Incarnation,
			last: at, confirmed: r.Base, base: r.Base, shown: shown,
			// What the client has is not known until it gets a snapshot.
			ahead: tok.lost,
		})
		t.next = max(t.next, r.Index+1)
		if tok.lost {
			at = store.Position{}
		}
		out = append(out, engine.Room{SessionID: r.SID, Incarnation: r.Incarnation, Position: at, ShownRun: shown})
	}
	return out
}

package edge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func at(offset int64) store.Position {
	return store.Position{Offset: offset, Stamp: fmt.Sprintf("z%d", offset)}
}

func room(sid string, offset int64) engine.Room {
	return engine.Room{SessionID: sid, Incarnation: "ep", Position: at(offset)}
}

// newTrack is the track of a new pid.
func newTrack() (*track, string) {
	pid := randomName(16)
	return &track{prefix: pidPrefix(pid)}, pid
}

// places says where a recovery would continue, as "sid@offset".
func places(t *testing.T, tr *track, pid, token string, base []store.ConnRoom) string {
	t.Helper()
	tok, ok := parseToken(pid, token)
	if !ok {
		t.Fatalf("token %q is not read", token)
	}
	again := &track{prefix: tr.prefix}
	var out []string
	for _, r := range again.restore(base, tok) {
		out = append(out, fmt.Sprintf("%s@%d", r.SessionID, r.Position.Offset))
	}
	return strings.Join(out, " ")
}

// H27, contract 6: a room's true place is the later of the acknowledged base and
// the client's last token, whichever of the saves and packets were lost.
func TestTokenAndBaseH27(t *testing.T) {
	tr, pid := newTrack()
	tr.move(room("a", 1))
	tr.move(room("b", 5))
	atJoin := tr.record() // saved at the join: nothing is confirmed yet
	tr.saved(atJoin)
	first := tr.token()
	if got := places(t, tr, pid, first, atJoin); got != "a@1 b@5" {
		t.Errorf("token without base: %s", got)
	}

	tr.ping()
	tr.move(room("a", 2)) // behind the ping: the pong does not confirm it
	second := tr.token()
	if !tr.pong() {
		t.Error("nothing to save after the pong")
	}
	confirmed := tr.record()
	if got := places(t, tr, pid, second, confirmed); got != "a@2 b@5" {
		t.Errorf("newer token, saved base: %s", got)
	}
	if got := places(t, tr, pid, second, atJoin); got != "a@2 b@5" {
		t.Errorf("newer token, save lost: %s", got)
	}
	tr.saved(confirmed)
	third := tr.token()
	if strings.Contains(third, ":5:") {
		t.Errorf("token %q names a room that did not move since the base", third)
	}
	if got := places(t, tr, pid, third, confirmed); got != "a@2 b@5" {
		t.Errorf("token after the save: %s", got)
	}
	if got := places(t, tr, pid, first, confirmed); got != "a@1 b@5" {
		t.Errorf("older token than base: %s", got)
	}
	tr.ping()
	if !tr.pong() {
		t.Error("the second room's move is not noticed")
	}
	tr.saved(tr.record())
	if tr.ping(); tr.pong() {
		t.Error("a pong without a move asks for a save")
	}
	if got := places(t, tr, pid, tr.token(), tr.record()); got != "a@2 b@5" {
		t.Errorf("empty token: %s", got)
	}
}

func TestTokenOfManyRooms(t *testing.T) {
	tr, pid := newTrack()
	want := []string{}
	for i := range maxTokenRooms {
		tr.move(room(fmt.Sprint(i), int64(i+1)))
		want = append(want, fmt.Sprintf("%d@%d", i, i+1))
	}
	if got := places(t, tr, pid, tr.token(), tr.record()); got != strings.Join(want, " ") {
		t.Errorf("as many as a token names: %s", got)
	}
	tr.ping()
	tr.pong()
	base := tr.record() // confirmed by a pong, not acknowledged by the store
	tr.move(room("more", 1))
	for _, place := range strings.Fields(places(t, tr, pid, tr.token(), base)) {
		if !strings.HasSuffix(place, "@0") {
			t.Errorf("more than a token names: a client may be ahead of %s", place)
		}
	}
}

// A room that was left, or whose session was made anew, has another index: an old
// token says nothing about the new one.
func TestIndexIsNeverReused(t *testing.T) {
	tr, pid := newTrack()
	tr.move(room("a", 7))
	old := tr.token()
	tr.leave("a")
	tr.move(room("b", 1))
	if got := places(t, tr, pid, old, tr.record()); got != "b@0" {
		t.Errorf("after leaving: %s", got)
	}
	anew := room("b", 1)
	anew.Incarnation = "other"
	old = tr.token()
	tr.move(anew)
	if got := places(t, tr, pid, old, tr.record()); got != "b@0" {
		t.Errorf("after the session was made anew: %s", got)
	}

	// And across a recovery, also if the newest room had been left.
	tr.move(room("c", 3))
	tok, _ := parseToken(pid, tr.token())
	tr.leave("c")
	again := &track{prefix: tr.prefix}
	again.restore(tr.record(), tok)
	again.move(room("d", 1))
	if slices.ContainsFunc(again.rooms[:len(again.rooms)-1], func(r trackedRoom) bool { return r.index == again.rooms[len(again.rooms)-1].index }) ||
		tok.rooms[again.rooms[len(again.rooms)-1].index] != (store.Position{}) {
		t.Errorf("index reused: %+v after token %v", again.rooms, tok.rooms)
	}
}

// An event that was not queued after all has moved nothing.
func TestMoveIsTakenBack(t *testing.T) {
	tr, _ := newTrack()
	shown := room("a", 1)
	shown.ShownRun = "run"
	tr.move(shown)
	before, token := slices.Clone(tr.rooms), tr.token()
	anew := room("a", 1)
	anew.Incarnation = "other"
	for _, r := range []engine.Room{room("a", 2), room("b", 1), anew, {}, {SessionID: "a"}} {
		tr.restoreFrom(tr.move(r))
		if !slices.Equal(tr.rooms, before) || tr.token() != token {
			t.Errorf("%+v left %+v", r, tr.rooms)
		}
	}
	if !tr.shows() {
		t.Error("the shown run is forgotten")
	}
}

func TestMoveTellsWhenTheRecordIsOutOfDate(t *testing.T) {
	tr, _ := newTrack()
	running := room("a", 3)
	running.ShownRun = "run"
	for _, step := range []struct {
		name   string
		room   engine.Room
		record bool
	}{
		{"joined", room("a", 1), true},
		{"moved", room("a", 2), false},
		{"run shown", running, true},
		{"run ended", room("a", 4), true},
		{"no log entry", engine.Room{SessionID: "a"}, false},
		{"no room", engine.Room{}, false},
	} {
		if got := tr.move(step.room).record; got != step.record {
			t.Errorf("%s: %v", step.name, got)
		}
	}
}

func TestForeignTokensH28(t *testing.T) {
	_, pid := newTrack()
	p := pidPrefix(pid)
	var crowded []string
	for i := range maxTokenRooms + 1 {
		crowded = append(crowded, fmt.Sprintf("%d:1:z", i))
	}
	for _, token := range []string{
		"", ".", "-", p, p + "x.", "abcd.0:1:z", p + ".0", p + ".0:1", p + ".0:1:", p + ".0:x:z", p + ".!:1:z",
		p + ".-1:1:z", p + ".0:-1:z", p + ".0:1:z,", p + ".0:99999999999999999999:z",
		p + ".-x", p + ".-=0", p + ".-=0:", p + ".-=!:r", p + ".-=0:r,", p + ".-=" + strings.Join(crowded, ","),
		p + "." + strings.Join(crowded, ","), p + ".0:1:" + strings.Repeat("a", maxTokenLength),
	} {
		if tok, ok := parseToken(pid, token); ok {
			t.Errorf("%q is read as %v", token, tok)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	const pid = "pid"
	p := pidPrefix(pid)
	for _, seed := range []string{p + ".", p + ".-", p + ".-=0:run,z:r", p + ".0:1:abc0", p + ".0:1:a,z:22:b", "x.0:1:a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, offset string) {
		tok, ok := parseToken(pid, offset)
		if !ok {
			return
		}
		if !strings.HasPrefix(offset, p+".") || len(tok.rooms) > maxTokenRooms {
			t.Errorf("%q is read as %+v", offset, tok)
		}
		tr := &track{prefix: p}
		tr.restore([]store.ConnRoom{{Index: 0, SID: "s", Base: at(3)}}, tok)
		if got := tr.rooms[0].last.Offset; got < 3 {
			t.Errorf("%q takes the room back to %d", offset, got)
		}
	})
}

// Contract 6: behind volatile events the token names the runs that are shown, since
// the record may not have been saved: an ending that was told is not told again.
func TestTokenNamesShownRuns(t *testing.T) {
	tr, pid := newTrack()
	saved := room("a", 1)
	saved.ShownRun = "first"
	tr.move(saved)
	tr.move(room("b", 1))
	record := tr.record()
	tr.move(room("a", 2)) // the end of the first run; the record is not saved any more
	ahead := room("a", 2)
	ahead.ShownRun, ahead.Volatile = "second", true
	tr.move(ahead)
	shown := func() string {
		tok, ok := parseToken(pid, tr.token())
		if !ok {
			t.Fatalf("token %q is not read", tr.token())
		}
		var out []string
		for _, r := range (&track{prefix: tr.prefix}).restore(record, tok) {
			out = append(out, fmt.Sprintf("%s:%s@%d", r.SessionID, r.ShownRun, r.Position.Offset))
		}
		return strings.Join(out, " ")
	}
	if got := shown(); got != "a:second@0 b:@0" {
		t.Errorf("while a run is shown: %s", got)
	}
	ahead.ShownRun = ""
	tr.move(ahead)
	if got := shown(); got != "a:@0 b:@0" {
		t.Errorf("while none is shown: %s", got)
	}
}

// An ending that is made for a client whose place is gone is told once: its room shows
// no run any more, and waits for a snapshot.
func TestTokenOfAMadeUpEnding(t *testing.T) {
	tr, pid := newTrack()
	running := room("a", 3)
	running.ShownRun = "run"
	tr.move(running)
	record := tr.record()
	tr.move(engine.Room{SessionID: "a", Incarnation: "ep", Volatile: true})
	tok, ok := parseToken(pid, tr.token())
	if !ok {
		t.Fatalf("token %q is not read", tr.token())
	}
	rooms := (&track{prefix: tr.prefix}).restore(record, tok)
	if len(rooms) != 1 || rooms[0].ShownRun != "" || rooms[0].Position != (store.Position{}) {
		t.Errorf("continued with %+v", rooms)
	}
	if tr.rooms[0].last != at(3) {
		t.Errorf("the room went to %+v", tr.rooms[0].last)
	}
}

// A client whose positions are not known may be lost again before each room has got
// its snapshot: packets of other rooms do not make up positions for it.
func TestTokenBehindALostOne(t *testing.T) {
	tr, pid := newTrack()
	tr.move(room("a", 3))
	tr.move(room("b", 3))
	tr.ping()
	tr.pong()
	record := tr.record()
	tok, ok := parseToken(pid, tr.prefix+".-")
	if !ok {
		t.Fatal("the token is not read")
	}
	again := &track{prefix: tr.prefix}
	again.restore(record, tok)
	again.move(room("b", 4)) // the snapshot of b
	if got := places(t, again, pid, again.token(), record); got != "a@0 b@0" {
		t.Errorf("before the snapshot of the first room: %s", got)
	}
	again.move(room("a", 4))
	if got := places(t, again, pid, again.token(), record); got != "a@4 b@4" {
		t.Errorf("behind both: %s", got)
	}
}

// Contract 6 and 9.2: a client that was shown what the log may never have is not
// continued from a position, until an event of the log has come behind it.
func TestTokenOfVolatileEvents(t *testing.T) {
	tr, pid := newTrack()
	tr.move(room("a", 1))
	tr.move(room("b", 5))
	record := tr.record()
	tr.saved(record)
	tr.ping()
	tr.pong()
	tr.saved(tr.record())

	ahead := room("a", 1)
	ahead.Volatile = true
	tr.move(ahead)
	if got := places(t, tr, pid, tr.token(), record); got != "a@0 b@0" {
		t.Errorf("token of a volatile event: %s", got)
	}
	tr.move(room("b", 6))
	if got := places(t, tr, pid, tr.token(), record); got != "a@0 b@0" {
		t.Errorf("token of another room behind it: %s", got)
	}
	undo := tr.move(room("a", 2))
	tr.restoreFrom(undo)
	if got := places(t, tr, pid, tr.token(), record); got != "a@0 b@0" {
		t.Errorf("token behind an event that was not queued: %s", got)
	}
	tr.move(room("a", 2))
	if got := places(t, tr, pid, tr.token(), record); got != "a@2 b@6" {
		t.Errorf("token behind an event of the log: %s", got)
	}
}

// Contract 6: a room is in the record before its first event is sent, and keeps its
// index then; one that the client asked for in vain is not kept.
func TestReservedRoom(t *testing.T) {
	tr, pid := newTrack()
	tr.move(room("a", 1))
	if !tr.reserve("b") || tr.reserve("b") || tr.reserve("a") {
		t.Error("a room is new exactly once")
	}
	early := tr.record()
	if len(early) != 2 || early[1].SID != "b" || early[1].Incarnation != "" {
		t.Fatalf("record %+v", early)
	}
	if got := places(t, tr, pid, tr.token(), early); got != "a@1 b@0" {
		t.Errorf("lost before the first event: %s", got)
	}
	if undo := tr.move(room("b", 7)); !undo.record {
		t.Error("the record is not written again")
	} else {
		tr.restoreFrom(undo)
	}
	if got := tr.record()[1]; got.Incarnation != "" {
		t.Errorf("an event that was not sent stays: %+v", got)
	}
	tr.move(room("b", 7))
	if got := tr.record()[1]; got.Index != early[1].Index || got.Incarnation != "ep" {
		t.Errorf("the room has become another: %+v", got)
	}
	if tr.unreserve("b") {
		t.Error("a room that is followed is forgotten")
	}
	tr.reserve("c")
	if !tr.unreserve("c") || tr.unreserve("c") || len(tr.record()) != 2 {
		t.Errorf("asked for in vain: %+v", tr.record())
	}
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// TestFileEqualsMemory does things at random while the file refuses writes at
// random: what the process shows at the end, the next one finds in the file.
func TestFileEqualsMemory(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { fileEqualsMemory(t, seed) })
	}
}

func fileEqualsMemory(t *testing.T, seed uint64) {
	o := options(t)
	var mu sync.Mutex
	refuse, dice := true, rand.New(rand.NewPCG(seed, 1))
	o.finish, o.flush = time.Nanosecond, time.Millisecond
	o.clock = func() int64 { return 1_700_000_000_000 }
	o.hook = func(point string) error {
		mu.Lock()
		defer mu.Unlock()
		if point == beforeCommit && refuse && dice.IntN(4) == 0 {
			return errors.New("not this time")
		}
		return nil
	}
	st := open(t, o)
	a := &actor{T: t, st: st, rng: rand.New(rand.NewPCG(seed, 2)), sid: "s"}
	for range 150 {
		a.act()
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	before := a.portrait()
	closed(t, st)
	a.st = open(t, o)
	if after := a.portrait(); after != before {
		t.Fatalf("in memory:\n%s\nin the file:\n%s", before, after)
	}
}

// actor plays client and owner of one session.
type actor struct {
	*testing.T
	st   *Store
	rng  *rand.Rand
	sid  string
	qids []string
	ops  int
}

// act does one thing at random. Refusals of all kinds are fine.
func (a *actor) act() {
	ctx := context.Background()
	a.ops++
	h := head(a.T, a.st, a.sid)
	b := batch(a.sid, h.Run.Run, 0)
	b.Token = h.Run.Token
	if r, err := a.st.Renew(ctx, a.sid, b.Token, b.Run, 0, time.Minute); err == nil {
		b.Seq = r.Seq + 1
	}
	var err error
	switch op := fmt.Sprint("op", a.ops); a.rng.IntN(16) {
	case 0, 1, 2:
		qid := fmt.Sprint("q", a.ops)
		a.qids = append(a.qids, qid)
		s := store.SubmitArgs{SID: a.sid, Guard: alice, Item: item(qid)}
		if a.rng.IntN(4) > 0 {
			s.Start = &store.Start{Token: op, Node: "n", TTL: time.Minute}
		}
		_, err = a.st.Submit(ctx, s)
	case 3, 4:
		b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte(op)}}
		b.Patch.Upstream = []byte(op)
		_, err = a.st.Append(ctx, b)
	case 5:
		b.Checkpoint = []byte(op)
		_, err = a.st.Append(ctx, b)
	case 6:
		b.Patch.Phase = store.PhaseSent
		_, err = a.st.Append(ctx, b)
	case 7, 8, 9:
		end := endOf(b, "gateway")
		if h.Run.Abort {
			end.Outcome = store.StateAborted
		}
		_, err = a.st.Finish(ctx, end)
	case 10:
		_, err = a.st.RequestAbort(ctx, a.sid, alice, h.Run.Run, "", store.NewEntry{Name: "abort.started"})
	case 11:
		_, err = a.st.TakeOver(ctx, store.TakeOverArgs{SID: a.sid, Token: op, Node: "n", TTL: time.Minute})
	case 12:
		_, err = a.st.Release(ctx, a.sid, b.Token, b.Run, b.Seq-1, []byte(op))
	case 13:
		_, err = a.st.Note(ctx, store.NoteArgs{SID: a.sid, Guard: alice, OpID: op, Rows: []store.NewRow{{Data: []byte(op)}}})
	case 14:
		_, err = a.st.Clear(ctx, a.sid, alice, op, 0)
	case 15:
		if len(a.qids) > 0 && a.rng.IntN(3) > 0 {
			_, err = a.st.Withdraw(ctx, a.sid, a.qids[a.rng.IntN(len(a.qids))], "run-"+a.qids[0])
		} else {
			_, err = a.st.Delete(ctx, a.sid, alice, op, 0)
		}
	}
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		a.Fatal(err)
	}
}

// portrait describes all of the session that outlives a process.
func (a *actor) portrait() string {
	ctx := context.Background()
	snap, err := a.st.Snapshot(ctx, a.sid)
	if err != nil {
		a.Fatal(err)
	}
	s := snap.Session
	s.Head = store.Position{}
	s.Run.Token, s.Run.Node, s.Run.Alive = "", "", false
	lines := []string{fmt.Sprintf("%+v", s), fmt.Sprintf("checkpoint %q", snap.Checkpoint)}
	waiting := map[string]bool{}
	for _, it := range snap.Queue {
		waiting[it.QID] = true
		lines = append(lines, fmt.Sprintf("waits %+v", it))
	}
	if s.Incarnation != "" {
		lines = append(lines, "rows "+rowsOf(a.T, a.st, a.sid))
	}
	for _, qid := range a.qids {
		if waiting[qid] {
			continue
		}
		c, err := a.st.CancelQueued(ctx, a.sid, alice, qid)
		if err != nil || c.Code != store.NotQueued {
			a.Fatalf("CancelQueued %s: %+v, %v", qid, c, err)
		}
		lines = append(lines, qid+" "+string(c.State))
	}
	return strings.Join(lines, "\n")
}

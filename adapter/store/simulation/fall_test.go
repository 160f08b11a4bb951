package simulation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// Times of a store that falls back.
const (
	longestLoss = 5_000 // so much of what was acknowledged last is lost at most
	undisturbed = 7_000 // no other fault begins so long: owners can speak
	soon        = 300   // a pause or cut that ends within this time does not count
)

// memento is what the truth knew at the moment to which the store falls back.
type memento struct {
	at          int64
	mark        *memory.Mark
	order       map[string][]string
	acceptedRun map[string]bool
	undone      map[string]bool
	gaps        map[string][]gap
}

// gap is where a log goes on behind a break of its chain.
type gap struct {
	incarnation string
	at          store.Position
}

// fallSoon lets the store lose what it acknowledges between now and a moment in
// the near future, at that moment.
func (w *world) fallSoon() {
	if w.falling || w.now < w.quietUntil {
		return
	}
	w.falling = true
	m := memento{at: w.now, mark: w.mem.Mark(), acceptedRun: maps.Clone(w.acceptedRun), undone: maps.Clone(w.undone), order: map[string][]string{}, gaps: map[string][]gap{}}
	for _, sid := range w.sids {
		m.order[sid], m.gaps[sid] = slices.Clone(w.order[sid]), slices.Clone(w.gaps[sid])
	}
	w.after(w.upTo(longestLoss), func() { w.fallBack(&m) })
}

func (w *world) fallBack(m *memento) {
	now, then := w.states(w.mem.Mark()), w.states(m.mark)
	for _, sid := range w.sids {
		w.timelines[sid] = append(w.timelines[sid], w.readAll(sid))
	}
	for _, qid := range w.qids {
		w.judge(qid, now[qid], then[qid])
		if w.told[qid] > m.at {
			w.wasLost[qid] = true // the store forgets that it may not be withdrawn
			delete(w.told, qid)
		}
	}
	w.mem.FallBack(m.mark)
	w.falls++
	w.falling = false
	w.quietUntil = w.now + undisturbed
	w.acceptedRun, w.undone, w.order, w.gaps = m.acceptedRun, m.undone, m.order, m.gaps
}

// judge decides what contract 9.5 lets happen to a message of which the store
// knows less than before.
func (w *world) judge(qid string, now, then store.State) {
	if now == then {
		return
	}
	o, begun := w.owners[qid]
	spoken := begun && o.n.alive && o.n.epoch == o.epoch && !o.n.draining &&
		o.n.paused <= w.now+soon && o.n.cut <= w.now+soon
	if spoken && now != store.StateCancelled && now != store.StateQueued {
		return
	}
	if then == "" {
		w.mayBeLost[qid], w.wasLost[qid] = true, true
	}
	if then == "" || then == store.StateQueued {
		w.mayRunTwice[qid] = true
	}
}

// states tells what a store at a mark knows of all messages.
func (w *world) states(mark *memory.Mark) map[string]store.State {
	now := w.now
	st := memory.New(memory.Options{
		Clock: func() int64 { return now }, FallsBack: true,
		Random: func(n int) string { return fmt.Sprintf("%0*d", n, 0) },
	})
	st.FallBack(mark)
	states := make(map[string]store.State, len(w.qids))
	for _, qid := range w.qids {
		res, err := st.Submit(background, store.SubmitArgs{
			SID: w.sessionOf[qid], Guard: guard, Item: store.Item{QID: qid, Digest: qid, Run: "probe-" + qid}, NotAfter: 1,
		})
		if err != nil {
			panic(err)
		}
		states[qid] = res.State
	}
	return states
}

// reinstated notes where readers of a log go on.
func (w *world) reinstated(sid string, res store.ReinstateResult) {
	if res.Code != store.OK {
		return
	}
	g := gap{res.Incarnation, res.Last}
	if !slices.Contains(w.gaps[sid], g) {
		w.gaps[sid] = append(w.gaps[sid], g)
	}
}

// readAll reads a log from its beginning, over the breaks of its chain.
func (w *world) readAll(sid string) (all []store.Entry) {
	h := w.head(sid)
	if !h.Exists() {
		return nil
	}
	at := store.Origin
	for at != h.Head {
		res, err := w.mem.ReadLog(background, sid, h.Incarnation, at, 0)
		if err == nil && res.Code == store.OK && len(res.Entries) > 0 {
			all = append(all, res.Entries...)
			at = all[len(all)-1].Position()
			continue
		}
		i := slices.IndexFunc(w.gaps[sid], func(g gap) bool {
			return g.incarnation == h.Incarnation && g.at.Offset == at.Offset+1
		})
		if i < 0 || res.Code != store.Diverged {
			w.violate("log of %s cannot be read after %d: %s, %v", sid, at.Offset, res.Code, err)
			return all
		}
		at = w.gaps[sid][i].at
		all = append(all, store.Entry{NewEntry: store.NewEntry{Kind: store.KindGap}, Offset: at.Offset, Stamp: at.Stamp})
	}
	return all
}

package simulation

import (
	"fmt"
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// truth is what really happened, and the promises that it broke.
type truth struct {
	violations   []string
	attempts     map[string]*attempt // by run key
	toldFailed   map[string]bool     // attempts
	undone       map[string]bool     // attempts withdrawn for certain
	acceptedRun  map[string]bool
	toldAccepted map[string]string   // qid → session
	order        map[string][]string // session → run keys as accepted
	calls        map[string]int      // upstream calls by run key
	itemCalls    map[string]int
	qids         []string // of all messages sent
	sessionOf    map[string]string
	owners       map[string]owner // qid → who has carried it last

	told        map[string]int64           // messages: when another attempt was first told of them
	gaps        map[string][]gap           // session → breaks of the log's chain
	timelines   map[string][][]store.Entry // session → logs that the store has lost in part
	buried      map[string]bool            // runs
	mayBeLost   map[string]bool            // messages, by contract 9.5
	mayRunTwice map[string]bool
	wasLost     map[string]bool // messages: what was told of them before is void
}

// owner is a process that carries a message.
type owner struct {
	n     *node
	epoch int
}

func newTruth() *truth {
	return &truth{
		attempts: map[string]*attempt{}, toldFailed: map[string]bool{}, undone: map[string]bool{},
		acceptedRun: map[string]bool{}, toldAccepted: map[string]string{}, order: map[string][]string{},
		calls: map[string]int{}, itemCalls: map[string]int{}, sessionOf: map[string]string{}, owners: map[string]owner{},
		gaps: map[string][]gap{}, timelines: map[string][][]store.Entry{}, buried: map[string]bool{},
		mayBeLost: map[string]bool{}, told: map[string]int64{}, wasLost: map[string]bool{}, mayRunTwice: map[string]bool{},
	}
}

func (w *world) violate(format string, args ...any) {
	w.violations = append(w.violations, fmt.Sprintf("at %d ms: ", w.now-1_000_000)+fmt.Sprintf(format, args...))
}

// knows notes a message that is sent.
func (w *world) knows(qid, sid string) {
	if w.sessionOf[qid] == "" {
		w.qids = append(w.qids, qid)
		w.sessionOf[qid] = sid
	}
}

// submitted sees each execution of a Submit.
func (w *world) submitted(a *attempt, res store.SubmitResult) {
	run := a.item.Run
	if res.Code == store.Repeat && w.told[a.item.QID] == 0 {
		w.told[a.item.QID] = w.now
	}
	if (res.Code != store.Started && res.Code != store.Queued) || w.acceptedRun[run] {
		return
	}
	w.acceptedRun[run] = true
	delete(w.mayBeLost, a.item.QID)
	w.order[a.sid] = append(w.order[a.sid], run)
	if w.toldFailed[run] && w.now > a.valid {
		w.violate("%s of %s was told as failed and accepted %d ms after its time", run, a.item.QID, w.now-a.valid)
	}
	if w.undone[run] {
		w.violate("%s was withdrawn and accepted afterwards", run)
	}
}

func (w *world) withdrawn(it store.Item) {
	w.undone[it.Run] = true
	w.mayBeLost[it.QID] = w.wasLost[it.QID]
	if w.calls[it.Run] > 0 && !w.mayRunTwice[it.QID] {
		w.violate("%s was withdrawn, but the upstream has been called", it.Run)
	}
}

func (w *world) called(run, qid string) {
	w.calls[run]++
	w.itemCalls[qid]++
	switch {
	case w.mayRunTwice[qid]:
	case w.calls[run] > 1:
		w.violate("upstream called %d times for %s", w.calls[run], run)
	case w.itemCalls[qid] > 1:
		w.violate("upstream called %d times for message %s", w.itemCalls[qid], qid)
	case w.undone[run]:
		w.violate("upstream called for %s, which was told as failed", run)
	}
}

// audit looks after each call whether work could be forgotten.
func (w *world) audit() {
	if w.now < w.quietUntil {
		return // what the index has lost comes back with the owners
	}
	for _, sid := range w.sids {
		if _, armed := w.mem.Armed(sid); armed {
			continue
		}
		if h := w.head(sid); h.Busy() {
			w.violate("%s is busy (run %q, queue %d) and not in the work index", sid, h.Run.Run, h.QueueLength)
		}
	}
}

// verify looks at the whole history once everything is quiet.
func (w *world) verify() {
	if !w.quiet() {
		for _, sid := range w.sids {
			h := w.head(sid)
			w.violate("never quiet: %s run %q, queue %d", sid, h.Run.Run, h.QueueLength)
		}
		for _, c := range w.clients {
			if c.watches && !c.caughtUp() {
				w.violate("a watcher of %s never sees the end", c.sid)
			}
		}
		return
	}
	ends := map[string]int{}
	for _, sid := range w.sids {
		log := w.readAll(sid)
		w.verifyLog(sid, log, ends)
		w.verifyOrder(sid, log)
		w.verifyRows(sid)
		for _, c := range w.clients {
			if c.sid == sid {
				w.verifyViews(c, log)
			}
		}
	}
	for qid, sid := range w.toldAccepted {
		w.verifyItem(qid, sid, ends)
	}
}

// verifyLog: one ending a run, nothing behind it, nothing of another run in it,
// and no queue event in a starting window (H12, H16).
func (w *world) verifyLog(sid string, log []store.Entry, ends map[string]int) {
	window := ""
	for i := range log {
		e := &log[i]
		switch e.Kind {
		case store.KindEvent, store.KindStarted:
			if string(e.Payload) != e.Run || ends[e.Run] > 0 {
				w.violate("%s: event of %s in or behind the wrong run at %d", sid, e.Payload, e.Offset)
			}
		case store.KindEnd:
			ends[e.Run]++
		}
		if e.Kind == store.KindStarted || e.Kind == store.KindEnd || e.Kind == store.KindGap {
			window = ""
		}
		if e.Kind == store.KindQueue {
			if window != "" {
				w.violate("%s: queue event at %d between the dequeue of %s and its start", sid, e.Offset, window)
			}
			window = e.Dequeued
		}
	}
	for i := range log {
		if e := &log[i]; e.Kind == store.KindPeer && ends[e.Run] != 1 {
			w.violate("%s: %d endings of %s", sid, ends[e.Run], e.Run)
		}
	}
}

// verifyOrder: messages begin in the order in which they were accepted.
func (w *world) verifyOrder(sid string, log []store.Entry) {
	last := -1
	for i := range log {
		if log[i].Kind != store.KindPeer {
			continue
		}
		place := slices.Index(w.order[sid], log[i].Run)
		if place <= last {
			w.violate("%s: %s began out of order", sid, log[i].Run)
		}
		last = place
	}
}

// verifyViews: what a watcher has seen is the log.
func (w *world) verifyViews(c *client, log []store.Entry) {
	for i, v := range c.views {
		wrong := v.differs(log)
		if i < len(c.views)-1 {
			for _, lost := range w.timelines[c.sid] {
				if v.differs(lost) == "" {
					wrong = ""
				}
			}
		}
		if wrong != "" {
			w.violate("a watcher of %s has seen %s", c.sid, wrong)
		}
	}
}

// differs says what a watcher has seen that is not in a log.
func (v *view) differs(log []store.Entry) string {
	want := log[min(v.from.Offset, int64(len(log))):]
	if len(v.entries) > len(want) {
		return "more than there is"
	}
	for i := range v.entries {
		got := &v.entries[i]
		if got.Offset != want[i].Offset || got.Stamp != want[i].Stamp || string(got.Payload) != string(want[i].Payload) {
			return fmt.Sprintf("%d at the place of %d", got.Offset, want[i].Offset)
		}
	}
	return ""
}

func (w *world) rowsOf(sid, run string) (rows []store.NewRow) {
	for _, r := range w.transcript(sid) {
		if r.Run == run {
			rows = append(rows, r.NewRow)
		}
	}
	return rows
}

func (w *world) transcript(sid string) []store.Row {
	h := w.head(sid)
	_, rows, _, err := w.mem.Rows(background, sid, h.Generation, 0, 1<<20, 1<<30)
	if err != nil {
		panic(err)
	}
	return rows
}

// verifyRows: a run has its message first and once, and no row twice.
func (w *world) verifyRows(sid string) {
	begun, seen := map[string]bool{}, map[string]bool{}
	for _, r := range w.transcript(sid) {
		id := r.Run + " " + string(r.Role) + " " + string(r.Data)
		if (r.Role == store.RoleUser) == begun[r.Run] || seen[id] {
			w.violate("%s: row %d (%s) is out of place", sid, r.ID, id)
		}
		begun[r.Run], seen[id] = true, true
	}
}

// verifyItem: an accepted message has one ending.
func (w *world) verifyItem(qid, sid string, ends map[string]int) {
	res, err := w.mem.Submit(background, store.SubmitArgs{
		SID: sid, Guard: guard, Item: store.Item{QID: qid, Digest: qid, Run: "probe-" + qid},
	})
	switch {
	case err != nil:
		w.violate("probe of %s: %v", qid, err)
	case res.Code != store.Repeat && w.mayBeLost[qid]:
	case res.Code != store.Repeat:
		w.violate("message %s was told as accepted and is nowhere (%s)", qid, res.Code)
	case !res.State.Ended():
		w.violate("message %s is %s for ever", qid, res.State)
	case w.buried[res.Run] && res.State == store.StateFailed:
	case res.State != store.StateCancelled && ends[res.Run] != 1:
		w.violate("message %s has %d endings", qid, ends[res.Run])
	}
}

package chaos

import (
	"slices"
	"strings"
)

// watcher follows what one client was shown of one session. A snapshot replaces
// what it knows; every event must continue it.
type watcher struct {
	c      *checker
	t      *truth
	client string

	following bool
	next      int // first run whose ending has been neither told nor shown
	active    bool
	maybe     bool // the snapshot does not say whether that run has ended
	peer      bool // its message has been shown
	dequeued  bool
	window    bool // it has been seen to leave the queue, and has not started
	started   bool
	aborting  bool
	broken    bool // its text is wrong already
	text      string
	tools     []string
	waiting   []string       // the queue as it was shown last
	endings   map[int]int    // events by run
	resent    map[string]int // how often this client has sent a message again
	owed      func()         // a difference that only a snapshot right behind excuses
}

func newWatcher(c *checker, t *truth, client string) *watcher {
	return &watcher{c: c, t: t, client: client, endings: make(map[int]int), resent: make(map[string]int)}
}

func (w *watcher) report(check, format string, args ...any) {
	w.c.report(check, w.t.session, w.client, format, args...)
}

// forget: the connection was not continued.
func (w *watcher) forget() { w.following = false }

func (w *watcher) take(e Entry) {
	if e.What == EntrySent && e.Name == "run" {
		if m, ok := sentMessage(e); ok {
			if sends := w.t.message(m.QID).sends; len(sends) > 1 && sends[0] < e.At {
				w.resent[m.QID]++
			}
		}
	}
	if e.What != EntryReceived {
		return
	}
	if e.Name == "resumed" {
		w.owed = nil
		w.resumed(e)
		return
	}
	w.settle()
	p := parsePayload(e.Payload)
	switch {
	case isEnding(e.Name, p):
		w.ending(e, p)
	case !w.following:
	case e.Name == "run.queued":
		w.queue(p)
	case e.Name == "run.peer_user_message":
		qid, _ := p.Message.ID.(string)
		w.begins(qid, &w.peer, "its message")
	case e.Name == "run.started":
		w.begins(w.c.calls[p.RunID].QID, &w.started, "its start")
	case e.Name == "abort.started":
		w.aborting = true
	case e.Name == "message.delta":
		w.delta(p.Delta)
	case e.Name == "tool.started":
		w.tool(p.Tool)
	}
}

// settle reports what no snapshot has excused.
func (w *watcher) settle() {
	if w.owed != nil {
		w.owed()
		w.owed = nil
	}
}

func (w *watcher) resumed(e Entry) {
	s, err := ParseSnapshot(e.Payload)
	if err != nil {
		w.report(CheckView, "%v", err)
		return
	}
	w.following = true
	w.begin(len(s.Runs))
	w.compare(s)
	for run, n := range w.endings {
		if n > 0 && (run >= w.next && !w.maybe || run >= len(s.Runs)) {
			w.report(CheckView, "a snapshot does not show the end of %s, which had been told", w.name(run))
		}
	}
}

// compare checks a snapshot and takes over where it stands.
func (w *watcher) compare(s Snapshot) {
	w.inOrder(s.Queued)
	w.waiting = s.Queued
	if len(s.Runs) > len(w.t.runs) {
		w.report(CheckView, "a snapshot shows %d messages, the transcript has %d in the end", len(s.Runs), len(w.t.runs))
		return
	}
	runs := finished(s.Runs)
	for i, run := range runs {
		final := w.t.runs[i]
		last := i == len(runs)-1
		switch {
		case equalRuns(run, final) && (!last || !s.Open):
			// A run without any text may have ended or not; with text it has.
			if last && s.Working && run.Outcome == Unmarked {
				w.open(s, run)
				w.maybe = true
			}
		case last && s.Working && run.QID == final.QID && strings.HasPrefix(final.Text, run.Text):
			w.open(s, run)
			w.maybe = false
		default:
			w.report(CheckView, "a snapshot shows %+v, the transcript %+v in the end", run, final)
		}
	}
}

// open takes up the run that a snapshot shows as going on.
func (w *watcher) open(s Snapshot, run Run) {
	w.next = len(s.Runs) - 1
	w.active, w.peer, w.dequeued, w.started, w.aborting = true, true, true, s.Started, s.Aborting
	w.text, w.tools = run.Text, append(slices.Clone(run.Tools), s.Running...)
}

// begin stands before a run.
func (w *watcher) begin(run int) {
	w.next, w.text, w.tools = run, "", nil
	w.active, w.maybe, w.peer, w.dequeued, w.started, w.broken = false, false, false, false, false, false
	w.window, w.aborting = false, false
}

func (w *watcher) name(run int) string {
	if run < len(w.t.runs) {
		return w.t.runs[run].QID
	}
	return "a run behind the last"
}

// begins takes an event of the beginning of a run; shown is the flag of its kind.
func (w *watcher) begins(qid string, shown *bool, what string) {
	run, ok := w.t.index[qid]
	if !ok {
		w.report(CheckWriter, "%s of %q, which is not in the transcript", what, qid)
		return
	}
	if w.maybe && run == w.next+1 {
		w.begin(run)
	}
	switch {
	case run < w.next || run == w.next && *shown:
		w.report(CheckView, "%s of %s was shown twice", what, qid)
		return
	case run > w.next:
		w.report(CheckEnding, "%s of %s came before the end of %s", what, qid, w.name(w.next))
		w.begin(run)
	}
	w.active, w.maybe, *shown = true, false, true
	w.window = shown == &w.dequeued || w.window && shown != &w.started
}

func (w *watcher) queue(p payload) {
	w.inOrder(p.queueIDs())
	w.vanished(p)
	if p.Dequeued != "" {
		w.begins(p.Dequeued, &w.dequeued, "its leaving the queue")
		return
	}
	// chat-run 5.3.6: the front-end takes its first waiting message for the one
	// that starts.
	if w.window && len(w.resent) == 0 {
		w.report(CheckOrder, "the queue was shown between the dequeuing and the start of %s", w.name(w.next))
	}
}

// vanished: what has waited still waits, or is said to run, or was taken back. The
// list that answers a cancelled message sent again may be ahead of the log.
func (w *watcher) vanished(p payload) {
	now := p.queueIDs()
	for _, qid := range w.waiting {
		if qid == p.Dequeued || slices.Contains(now, qid) || w.repeatedCancelled() {
			continue
		}
		if m := w.t.message(qid); !m.cancelled && len(m.refusals) == 0 {
			w.report(CheckView, "%s is not shown as waiting any more, nor as running", qid)
		}
	}
	w.waiting = now
}

func (w *watcher) repeatedCancelled() bool {
	for qid := range w.resent {
		if w.t.message(qid).cancelled {
			return true
		}
	}
	return false
}

// inOrder: what waits runs in the order in which it waits.
func (w *watcher) inOrder(qids []string) {
	last := -1
	for i, qid := range qids {
		if slices.Index(qids, qid) != i {
			w.report(CheckOrder, "%s waits twice", qid)
		}
		place, stored := w.t.index[qid]
		if !stored {
			continue
		}
		if place < last {
			w.report(CheckOrder, "%s waited behind %s, but ran before it", qid, w.name(last))
		}
		last = place
	}
}

func (w *watcher) delta(delta string) {
	if w.broken {
		return
	}
	if !w.active || w.next >= len(w.t.runs) {
		w.broken = true
		w.report(CheckWriter, "text %.80q while nothing runs; %s is next", delta, w.name(w.next))
		return
	}
	run := w.t.runs[w.next]
	w.maybe = false
	w.text += delta
	if m := w.t.messages[run.QID]; m != nil && !strings.HasPrefix(m.Text(), w.text) {
		w.broken = true
		check := CheckView
		if qid := qidOf(delta); qid != "" && qid != run.QID {
			check = CheckWriter
		}
		w.report(check, "%s: behind %d bytes came %.80q", run.QID, len(w.text)-len(delta), delta)
	}
}

func (w *watcher) tool(id string) {
	if w.broken || !w.active || w.next >= len(w.t.runs) {
		return
	}
	run := w.t.runs[w.next]
	m := w.t.messages[run.QID]
	if m == nil {
		return
	}
	at, known := m.ToolsAt()[id]
	switch {
	case !known:
		w.report(CheckWriter, "%s: tool %q is of another message", run.QID, id)
	case slices.Contains(w.tools, id):
		w.report(CheckView, "%s: tool %s began twice", run.QID, id)
	case at != len(w.text):
		w.report(CheckView, "%s: tool %s came behind %d bytes of text instead of %d", run.QID, id, len(w.text), at)
	}
	w.tools = append(w.tools, id)
}

// finish looks at where the watcher stands when all is quiet.
func (w *watcher) finish() {
	w.settle()
	if !w.following {
		return
	}
	if w.maybe {
		w.begin(w.next + 1)
	}
	if w.next < len(w.t.runs) {
		w.report(CheckEnding, "the end of %s was never told", w.name(w.next))
	}
}

package chaos

import "time"

var outcomes = map[string]Outcome{"run.completed": Completed, "run.failed": Failed, "abort.completed": Aborted}

// ending takes the terminal event of a run.
func (w *watcher) ending(e Entry, p payload) {
	run, ok := w.runOf(e, p)
	if !ok {
		w.report(CheckWriter, "%s of something that is not in the transcript: %.200s", e.Name, e.Payload)
		return
	}
	w.endings[run]++
	if again := w.endings[run] - 1; again > w.resent[w.name(run)] {
		w.report(CheckEnding, "%s ended %d times for this client", w.name(run), w.endings[run])
	}
	w.sameOutcome(e, run)
	if !w.following {
		return
	}
	switch {
	case run < w.next:
		if w.resent[w.name(run)] == 0 {
			w.report(CheckEnding, "%s of %s, whose end was known", e.Name, w.name(run))
		}
		return
	case run > w.next:
		if !w.maybe || run > w.next+1 {
			w.report(CheckEnding, "%s of %s without the end of %s", e.Name, w.name(run), w.name(w.next))
		}
	default:
		w.wholeText(e, p)
	}
	w.begin(run + 1)
}

// runOf finds the run that an ending is about. It says so by its upstream id or by
// its text; one that never got that far ends where it stands in the order.
func (w *watcher) runOf(e Entry, p payload) (int, bool) {
	qid := w.c.calls[p.RunID].QID
	if qid == "" {
		qid = qidOf(p.Output)
	}
	if qid != "" {
		run, ok := w.t.index[qid]
		return run, ok
	}
	if again, ok := w.answerToRepeat(e); ok && w.madeUp(e, p) {
		return again, true
	}
	return w.next, w.next < len(w.t.runs) || !w.following
}

// detailsGone is the cause that an ending gives which is made from the transcript.
const detailsGone = "The run has ended; its details are no longer available"

// madeUp: an ending that names nothing was made from the transcript, and is not the
// log's.
func (w *watcher) madeUp(e Entry, p payload) bool {
	if e.Name == "abort.completed" {
		return !w.following || !w.aborting
	}
	return p.Error == detailsGone
}

// answerToRepeat finds the message that was sent again, had ended, and for which
// the answer to that is still due.
func (w *watcher) answerToRepeat(e Entry) (int, bool) {
	for qid, again := range w.resent {
		run, ok := w.t.index[qid]
		if ok && (run < w.next || !w.following) && w.endings[run] <= again && w.couldBe(run, e) {
			return run, true
		}
	}
	return 0, false
}

// couldBe says whether an ending without any text fits a run.
func (w *watcher) couldBe(run int, e Entry) bool {
	outcome := w.t.runs[run].Outcome
	return w.t.runs[run].Text == "" && outcome == Unmarked || outcome == outcomes[e.Name]
}

// sameOutcome: every watcher is told the outcome that the transcript shows.
func (w *watcher) sameOutcome(e Entry, run int) {
	if run >= len(w.t.runs) {
		return
	}
	told, stored := outcomes[e.Name], w.t.runs[run].Outcome
	if stored == Unmarked && told != Completed {
		return
	}
	if told != stored {
		w.report(CheckEnding, "%s is told as %s at %s, the transcript says %s", w.name(run), told, e.At.Truncate(time.Millisecond), stored)
	}
}

// wholeText: at its end a run shows the text that the transcript keeps.
func (w *watcher) wholeText(e Entry, p payload) {
	if w.broken || w.next >= len(w.t.runs) {
		return
	}
	run, shown := w.t.runs[w.next], w.text
	if e.Name == "run.completed" && p.Output != run.Text {
		w.report(CheckText, "run.completed of %s has the output %.200q", run.QID, p.Output)
	}
	if shown != run.Text {
		w.owed = func() {
			w.report(CheckView, "at its end %s showed %d bytes of text, the transcript has %d", run.QID, len(shown), len(run.Text))
		}
	}
}

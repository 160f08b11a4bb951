package chaos

import (
	"slices"
	"strings"
	"time"
)

// checkFinal looks at the session as every node shows it in the end.
func (c *checker) checkFinal(t *truth) {
	final := c.ev.Final[t.session]
	for i, s := range final {
		if s.Working || s.Aborting || len(s.Queued) > 0 {
			c.report(CheckStuck, t.session, "", "snapshot %d: working %t, aborting %t, waiting %v", i, s.Working, s.Aborting, s.Queued)
		}
		if !slices.EqualFunc(finished(s.Runs), t.runs, equalRuns) {
			c.report(CheckView, t.session, "", "snapshot %d differs from the first: %v and %v", i, s.Runs, t.runs)
		}
	}
	for i, run := range t.runs {
		if t.index[run.QID] != i {
			c.report(CheckStored, t.session, "", "%s stands twice in the transcript", run.QID)
		}
		if m := t.messages[run.QID]; m != nil && len(m.sends) > 0 {
			c.checkRun(t, run, m)
		} else {
			c.report(CheckStored, t.session, "", "%q is in the transcript, but nobody sent it", run.QID)
		}
	}
}

// checkRun compares a finished run with what the gateway sent for it.
func (c *checker) checkRun(t *truth, run Run, m *sent) {
	report := func(format string, args ...any) { c.report(CheckText, t.session, "", format, args...) }
	full := m.Text()
	words := 0
	for _, call := range m.taken() {
		words = max(words, call.Words)
	}
	switch {
	case !strings.HasPrefix(full, run.Text):
		report("%s has the text %.200q", run.QID, run.Text)
	case strings.Count(run.Text, "#") > words:
		report("%s shows %d words, the gateway sent %d", run.QID, strings.Count(run.Text, "#"), words)
	case run.Outcome == Completed && (run.Text != full || m.Outcome() != Completed):
		report("%s of kind %s counts as completed with %d of %d bytes", run.QID, m.Kind, len(run.Text), len(full))
	case run.Outcome == Unmarked && run.Text != "" && len(run.Tools) == 0:
		report("%s has %d bytes of text and no mark that it was cut off", run.QID, len(run.Text))
	case c.ev.Calm && run.Outcome == Failed && m.Outcome() == Completed:
		report("%s failed without any fault", run.QID)
	}
	at := m.ToolsAt()
	for _, tool := range run.Tools {
		if _, ok := at[tool]; !ok {
			report("%s shows the tool call %s, which the gateway never sent", run.QID, tool)
		}
	}
	if run.Outcome == Completed && len(run.Tools) != len(at) {
		report("%s shows the calls %v, the gateway sent %d", run.QID, run.Tools, len(at))
	}
}

// checkMessages looks for what was lost, doubled, or run behind the sender's back.
func (c *checker) checkMessages(t *truth) {
	for qid, m := range t.messages {
		if len(m.sends) == 0 {
			continue
		}
		_, stored := t.index[qid]
		switch {
		case len(m.taken()) > 1:
			c.report(CheckStored, t.session, "", "%s was carried out %d times", qid, len(m.taken()))
		case !stored && len(m.calls) > 0:
			c.report(CheckStored, t.session, "", "%s was sent to the gateway and is not in the transcript", qid)
		case !stored && !m.cancelled && !m.givenUp():
			c.report(CheckStored, t.session, "", "%s is lost: neither run, nor cancelled, nor refused", qid)
		}
		c.checkRefused(t, qid, m)
	}
}

// aroundRefusal is how long before and after a refusal the end of a node may have
// taken the withdrawal with it (contract 8).
const aroundRefusal = 10 * time.Second

// checkRefused: what the sender was told will not run does not run. Two ways out
// are part of the contract: a waiting message may be begun while it is withdrawn,
// and the node that should have withdrawn it may have died.
func (c *checker) checkRefused(t *truth, qid string, m *sent) {
	if len(m.refusals) == 0 || len(m.sends) > 1 || m.waited || len(m.calls) == 0 {
		return
	}
	told := m.refusals[0]
	if last := m.calls[len(m.calls)-1]; last.At < told {
		return
	}
	for _, f := range c.ev.Faults {
		if strings.Contains(f.What, "node") && f.At > told-aroundRefusal && f.At < told+aroundRefusal {
			return
		}
	}
	c.report(CheckRefusal, t.session, "", "%s was told as failed at %.3f and called at %.3f", qid, told.Seconds(), m.calls[len(m.calls)-1].At.Seconds())
}

// checkGateway compares the order of the calls with that of the transcript.
func (c *checker) checkGateway(t *truth) {
	var last Call
	for _, run := range t.runs {
		m := t.messages[run.QID]
		if m == nil {
			continue
		}
		taken := m.taken()
		if len(taken) == 0 {
			continue
		}
		if taken[0].At < last.At {
			c.report(CheckOrder, t.session, "", "%s was called before %s, which stands before it", run.QID, last.QID)
		}
		if c.ev.Calm && last.QID != "" && taken[0].At < last.End {
			c.report(CheckWriter, t.session, "", "%s was called while %s was still running", run.QID, last.QID)
		}
		last = taken[0]
	}
}

// checkIsolation: no word about another user's session, but that there is nothing.
func (c *checker) checkIsolation(client string, journal []Entry) {
	for _, e := range journal {
		if e.What != EntryReceived {
			continue
		}
		for session, owner := range c.ev.Owners {
			if owner != e.User && strings.Contains(string(e.Payload), owner+"."+session) {
				c.report(CheckIsolation, session, client, "got %s with text of user %s: %.200s", e.Name, owner, e.Payload)
				break
			}
		}
		if owner := c.ev.Owners[e.Session]; owner != "" && owner != e.User && !nothing(e) {
			c.report(CheckIsolation, e.Session, client, "got %s of a session of %s: %.200s", e.Name, owner, e.Payload)
		}
	}
}

// nothing says that an event tells a stranger nothing.
func nothing(e Entry) bool {
	switch e.Name {
	case "resumed":
		s, err := ParseSnapshot(e.Payload)
		return err == nil && !s.Working && len(s.Runs) == 0 && len(s.Queued) == 0
	case "run.failed":
		return parsePayload(e.Payload).QueueID != ""
	case "abort.completed":
		return parsePayload(e.Payload).Ignored
	}
	return false
}

// checkSendOrder: what was sent later on the same connection runs later, if both
// were accepted as they were first sent.
func (c *checker) checkSendOrder(client string, journal []Entry) {
	before := make(map[string]int) // session → place of the last one sent
	for _, e := range journal {
		t := c.truths[e.Session]
		switch {
		case e.What == EntryConnected || e.What == EntryLost:
			clear(before)
		case e.What != EntrySent || e.Name != "run" || t == nil || t.owner != e.User:
		default:
			m, ok := sentMessage(e)
			if !ok || len(t.message(m.QID).sends) > 1 || len(t.message(m.QID).refusals) > 0 {
				continue
			}
			place, stored := t.index[m.QID]
			if !stored {
				continue
			}
			if last, ok := before[e.Session]; ok && place < last {
				c.report(CheckOrder, e.Session, client, "%s was sent behind %s, but runs before it", m.QID, t.runs[last].QID)
			}
			before[e.Session] = place
		}
	}
}

package chaos

import "time"

// truth is what became of a session in the end, by its transcript and the gateway.
type truth struct {
	session, owner string
	runs           []Run
	index          map[string]int // qid → place in runs, the first if there are several
	messages       map[string]*sent
}

// sent is one message as its sender and everybody else saw it.
type sent struct {
	Message
	sends     []time.Duration
	refusals  []time.Duration
	cancelled bool // somebody asked for it
	waited    bool // somebody saw it in the queue
	calls     []Call
}

// taken are the calls that the gateway carried out.
func (s *sent) taken() []Call {
	var taken []Call
	for _, c := range s.calls {
		if !c.Refused {
			taken = append(taken, c)
		}
	}
	return taken
}

// givenUp says that the sender was told last that it will not be run.
func (s *sent) givenUp() bool {
	return len(s.refusals) > 0 && s.sends[len(s.sends)-1] < s.refusals[len(s.refusals)-1]
}

// truths collects the truth of every session of the evidence.
func truths(ev Evidence) map[string]*truth {
	all := make(map[string]*truth, len(ev.Owners))
	for session, owner := range ev.Owners {
		t := &truth{session: session, owner: owner, index: make(map[string]int), messages: make(map[string]*sent)}
		if final := ev.Final[session]; len(final) > 0 {
			t.runs = finished(final[0].Runs)
		}
		for i, run := range t.runs {
			if _, twice := t.index[run.QID]; !twice {
				t.index[run.QID] = i
			}
		}
		all[session] = t
	}
	for _, journal := range ev.Journals {
		for _, e := range journal {
			if t := all[e.Session]; t != nil && t.owner == e.User {
				t.collect(e)
			}
		}
	}
	for _, c := range ev.Calls {
		if t := all[sessionOf(c.QID)]; t != nil && t.messages[c.QID] != nil {
			t.messages[c.QID].calls = append(t.messages[c.QID].calls, c)
		}
	}
	return all
}

// finished names the outcome of runs that cannot go on.
func finished(runs []Run) []Run {
	out := make([]Run, len(runs))
	for i, run := range runs {
		if run.Outcome == "" {
			run.Outcome = Unmarked
		}
		out[i] = run
	}
	return out
}

func (t *truth) collect(e Entry) {
	switch {
	case e.What == EntrySent && e.Name == "run":
		m, ok := sentMessage(e)
		if !ok {
			return
		}
		s := t.message(m.QID)
		s.Message = m
		s.sends = append(s.sends, e.At)
	case e.What == EntrySent && e.Name == "cancel_queued_run":
		t.message(parsePayload(e.Payload).QueueID).cancelled = true
	case e.What == EntryReceived && e.Name == "run.failed":
		if p := parsePayload(e.Payload); p.QueueID != "" {
			s := t.message(p.QueueID)
			s.refusals = append(s.refusals, e.At)
		}
	case e.What == EntryReceived && e.Name == "run.queued":
		for _, qid := range parsePayload(e.Payload).queueIDs() {
			t.message(qid).waited = true
		}
	}
}

func sentMessage(e Entry) (Message, bool) {
	var fields struct{ Input string }
	if err := unmarshal(e.Payload, &fields); err != nil {
		return Message{}, false
	}
	return ParseMessage(fields.Input)
}

func (t *truth) message(qid string) *sent {
	s := t.messages[qid]
	if s == nil {
		s = new(sent)
		t.messages[qid] = s
	}
	return s
}

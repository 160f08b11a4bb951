package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Names of the checks. The numbers are those of the invariants of the design.
const (
	CheckStored    = "1 accepted messages are stored and run once"
	CheckEnding    = "2 one ending for every watcher"
	CheckStuck     = "3 idle or running after an ending"
	CheckView      = "4 watchers see what the log says: in order, no gap, nothing twice"
	CheckWriter    = "5 only the owner writes run events"
	CheckIsolation = "6 nothing reaches another user"
	CheckText      = "texts are what the gateway sent, or a marked prefix of it"
	CheckOrder     = "first in, first out"
	CheckRefusal   = "a message told as failed does not run"
)

// Violation is something that must not be.
type Violation struct {
	Check   string
	Session string
	Client  string // whose journal shows it; may be empty
	Detail  string
}

func (v Violation) String() string {
	return fmt.Sprintf("[%s] session %s, client %q: %s", v.Check, v.Session, v.Client, v.Detail)
}

// Check judges the evidence of a round.
func Check(ev Evidence) []Violation {
	c := &checker{ev: ev, truths: truths(ev), calls: make(map[string]Call)}
	for _, call := range ev.Calls {
		c.calls[call.Response] = call
	}
	for _, t := range c.truths {
		c.checkFinal(t)
		c.checkMessages(t)
		c.checkGateway(t)
	}
	for client, journal := range ev.Journals {
		c.checkIsolation(client, journal)
		c.checkJournal(client, journal)
	}
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Check, b.Check), cmp.Compare(a.Session, b.Session), cmp.Compare(a.Client, b.Client))
	})
	return c.found
}

type checker struct {
	ev     Evidence
	truths map[string]*truth
	calls  map[string]Call // by response id
	found  []Violation
}

func (c *checker) report(check, session, client, format string, args ...any) {
	c.found = append(c.found, Violation{check, session, client, fmt.Sprintf(format, args...)})
}

// checkJournal follows the sessions of one client.
func (c *checker) checkJournal(client string, journal []Entry) {
	watchers := make(map[string]*watcher)
	for session, t := range c.truths {
		if len(journal) > 0 && t.owner == journal[0].User {
			watchers[session] = newWatcher(c, t, client)
		}
	}
	for _, e := range journal {
		if e.What == EntryConnected && !e.Recovered {
			for _, w := range watchers {
				w.forget()
			}
		}
		if w := watchers[e.Session]; w != nil {
			w.take(e)
		}
	}
	for _, w := range watchers {
		w.finish()
	}
	c.checkSendOrder(client, journal)
}

func unmarshal(raw json.RawMessage, into any) error { return json.Unmarshal(raw, into) }

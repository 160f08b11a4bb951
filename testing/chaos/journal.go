package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// What an [Entry] tells.
const (
	EntryConnected = "connected" // Recovered: with all its rooms
	EntryLost      = "lost"      // the connection; Name is the reason
	EntrySent      = "sent"
	EntryReceived  = "received"
)

// Entry is one line of a client's journal.
type Entry struct {
	At        time.Duration
	Client    string
	User      string
	Node      string
	What      string
	Name      string // of the event
	Session   string
	Payload   json.RawMessage
	Recovered bool
}

// Journal is what one client has seen and done, in order. It is safe for
// concurrent use.
type Journal struct {
	client, user string
	clock        clock

	mu      sync.Mutex
	entries []Entry
}

func (j *Journal) add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.At, e.Client, e.User = j.clock.now(), j.client, j.user
	j.entries = append(j.entries, e)
}

// Entries returns the lines so far.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clip(j.entries)
}

// Fault is one step of the plan, as it was carried out.
type Fault struct {
	At   time.Duration
	What string
}

// line is anything with a time.
type line struct {
	at   time.Duration
	text string
}

const maxLinePayload = 300

// WriteTimeline merges everything that concerns one session, in order of time.
func WriteTimeline(w io.Writer, ev Evidence, session string) error {
	var lines []line
	for _, journal := range ev.Journals {
		for _, e := range journal {
			if e.Session == session || e.Session == "" {
				lines = append(lines, line{e.At, entryText(e)})
			}
		}
	}
	for _, f := range ev.Faults {
		lines = append(lines, line{f.At, "FAULT    " + f.What})
	}
	for _, c := range ev.Calls {
		if sessionOf(c.QID) != session {
			continue
		}
		lines = append(lines, line{c.At, fmt.Sprintf("GATEWAY  %s called, response %s, refused %t", c.QID, c.Response, c.Refused)})
		if c.Over {
			lines = append(lines, line{c.End, fmt.Sprintf("GATEWAY  %s over, %d words, gone %t", c.QID, c.Words, c.Gone)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "%9.3f %s\n", l.at.Seconds(), l.text); err != nil {
			return err
		}
	}
	return nil
}

func entryText(e Entry) string {
	payload := string(e.Payload)
	if len(payload) > maxLinePayload {
		payload = payload[:maxLinePayload] + fmt.Sprintf("… (%d bytes)", len(e.Payload))
	}
	recovered := ""
	if e.Recovered {
		recovered = " recovered"
	}
	return fmt.Sprintf("%-8s %s %-9s %s%s %s", e.Client, e.Node, e.What, e.Name, recovered, payload)
}

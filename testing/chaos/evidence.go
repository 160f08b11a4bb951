package chaos

import "strings"

// Evidence is everything that was written down in one round.
type Evidence struct {
	Owners   map[string]string // session → user
	Journals map[string][]Entry
	Calls    []Call
	Faults   []Fault
	// Final are the snapshots of each session at the end, one from each node.
	Final map[string][]Snapshot
	// Calm says that no fault was injected: then nothing may fail that was not
	// scripted to.
	Calm bool
}

// sessionOf reads the session that a message was sent to.
func sessionOf(qid string) string {
	parts := strings.SplitN(qid, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

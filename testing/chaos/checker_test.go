package chaos

import (
	"strings"
	"testing"
	"time"
)

func TestAGoodStoryHasNoViolations(t *testing.T) {
	for _, calm := range []bool{false, true} {
		ev := goodStory()
		ev.Calm = calm
		for _, v := range Check(ev) {
			t.Error(v)
		}
	}
}

// Every check finds what it is there for.
func TestChecksFail(t *testing.T) {
	for _, c := range []struct {
		what  string
		check string
		spoil func(t *testing.T, ev *Evidence)
	}{
		{"an accepted message is lost", CheckStored, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs = s.Runs[:2] })
		}},
		{"a message stands twice in the transcript", CheckStored, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs = append(s.Runs, s.Runs[1]) })
		}},
		{"a message runs twice", CheckStored, func(_ *testing.T, ev *Evidence) { ev.Calls = append(ev.Calls, ev.Calls[1]) }},
		{"a cancelled message runs", CheckStored, func(_ *testing.T, ev *Evidence) {
			ev.Calls = append(ev.Calls, Call{QID: story[3].QID, Response: "x", At: time.Hour, Words: 1})
		}},
		{"a message that nobody sent", CheckStored, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs = append(s.Runs, Run{QID: "alice.alice-1-r0.a1.99"}) })
		}},

		{"an ending is missing", CheckEnding, func(t *testing.T, ev *Evidence) { drop(t, *ev, "a2", "run.completed", story[0].QID) }},
		{"the last ending is missing", CheckEnding, func(t *testing.T, ev *Evidence) { drop(t, *ev, "a1", "run.failed", story[2].QID) }},
		{"an ending comes twice", CheckEnding, func(t *testing.T, ev *Evidence) { double(t, *ev, "a1", "run.completed", story[1].QID) }},
		{"two watchers are told different endings", CheckEnding, func(t *testing.T, ev *Evidence) {
			ev.Journals["a2"][find(t, *ev, "a2", EntryReceived, "run.completed", story[0].QID, 0)].Name = "run.failed"
		}},
		{"a run ends as aborted after it has completed", CheckEnding, func(t *testing.T, ev *Evidence) {
			i := find(t, *ev, "a2", EntryReceived, "run.completed", story[1].QID, 0)
			ended := ev.Journals["a2"][i]
			ended.Name = "abort.completed"
			ev.Journals["a2"] = append(ev.Journals["a2"][:i+1], append([]Entry{ended}, ev.Journals["a2"][i+1:]...)...)
		}},

		{"a session is busy for ever", CheckStuck, func(_ *testing.T, ev *Evidence) { ev.Final[storySession][0].Working = true }},
		{"a message waits for ever", CheckStuck, func(_ *testing.T, ev *Evidence) {
			ev.Final[storySession][1].Queued = []string{story[3].QID}
		}},

		{"a gap in the text", CheckView, func(t *testing.T, ev *Evidence) { drop(t, *ev, "a2", "message.delta", words(story[1], 4)) }},
		{"the last words are missing", CheckView, func(t *testing.T, ev *Evidence) { drop(t, *ev, "a2", "message.delta", words(story[1], 5)) }},
		{"words come twice", CheckView, func(t *testing.T, ev *Evidence) { double(t, *ev, "a1", "message.delta", words(story[0], 1)) }},
		{"words are out of order", CheckView, func(t *testing.T, ev *Evidence) {
			move(t, *ev, "a1", "message.delta", words(story[0], 0), "message.delta", words(story[0], 2))
		}},
		{"a tool is out of order", CheckView, func(t *testing.T, ev *Evidence) {
			move(t, *ev, "a1", "tool.started", story[1].QID, "message.delta", words(story[1], 4))
		}},
		{"a run starts twice", CheckView, func(t *testing.T, ev *Evidence) { double(t, *ev, "a2", "run.started", story[1].QID) }},
		{"a message is shown twice", CheckView, func(t *testing.T, ev *Evidence) {
			double(t, *ev, "a2", "run.peer_user_message", story[1].QID)
		}},
		{"words behind a snapshot that has them", CheckView, func(t *testing.T, ev *Evidence) {
			rewrite(t, *ev, "a1", EntryReceived, "resumed", story[2].QID+"#1", story[2].QID+"#1 ", "")
			move(t, *ev, "a1", "message.delta", words(story[2], 1), "resumed", story[2].QID)
			double(t, *ev, "a1", "message.delta", words(story[2], 1))
		}},
		{"a snapshot forgets an ending that was told", CheckView, func(_ *testing.T, ev *Evidence) {
			journal := ev.Journals["a2"]
			ev.Journals["a2"] = append(journal, journal[1])
		}},
		{"a snapshot shows other text", CheckView, func(t *testing.T, ev *Evidence) {
			rewrite(t, *ev, "a1", EntryReceived, "resumed", story[2].QID, story[0].QID+"#2 ", "")
		}},
		{"a waiting message is not shown any more", CheckView, func(t *testing.T, ev *Evidence) {
			i := find(t, *ev, "a2", EntryReceived, "run.queued", story[3].QID, 0)
			ev.Journals["a2"][i].Payload = []byte(`{"session_id":"` + storySession + `","queue_length":0,"queued_messages":[]}`)
		}},
		{"two nodes show different transcripts", CheckView, func(_ *testing.T, ev *Evidence) {
			last := &ev.Final[storySession][2]
			last.Runs = append([]Run(nil), last.Runs...)
			last.Runs[0].Text = "other"
		}},

		{"words of a run that has ended", CheckWriter, func(t *testing.T, ev *Evidence) {
			move(t, *ev, "a2", "message.delta", words(story[0], 3), "run.started", story[1].QID)
		}},
		{"words while nothing runs", CheckWriter, func(t *testing.T, ev *Evidence) {
			move(t, *ev, "a2", "message.delta", words(story[2], 2), "run.failed", story[2].QID)
		}},
		{"the start of a run that is nowhere", CheckWriter, func(t *testing.T, ev *Evidence) {
			rewrite(t, *ev, "a2", EntryReceived, "run.started", story[1].QID, `"resp_`, `"other_`)
		}},
		{"two calls at the same time", CheckWriter, func(_ *testing.T, ev *Evidence) {
			ev.Calm = true
			ev.Calls[1].At = ev.Calls[0].At + time.Millisecond
		}},

		{"a stranger gets an event", CheckIsolation, func(_ *testing.T, ev *Evidence) {
			e := ev.Journals["a2"][len(ev.Journals["a2"])-2]
			e.User = "bob"
			ev.Journals["b1"] = append(ev.Journals["b1"], e)
		}},
		{"a stranger gets a transcript", CheckIsolation, func(t *testing.T, ev *Evidence) {
			e := ev.Journals["a1"][find(t, *ev, "a1", EntryReceived, "resumed", story[0].QID, 0)]
			e.User = "bob"
			ev.Journals["b1"] = append(ev.Journals["b1"], e)
		}},
		{"a stranger's own session shows foreign text", CheckIsolation, func(t *testing.T, ev *Evidence) {
			e := ev.Journals["a1"][find(t, *ev, "a1", EntryReceived, "message.delta", "", 0)]
			e.User, e.Session = "bob", "bob-1-r0"
			ev.Journals["b1"] = append(ev.Journals["b1"], e)
		}},

		{"text that the gateway never sent", CheckText, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[0].Text = "something else" })
		}},
		{"more text than the gateway sent", CheckText, func(_ *testing.T, ev *Evidence) { ev.Calls[2].Words = 1 }},
		{"part of a text counts as complete", CheckText, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[0].Text = words(story[0], 0) })
		}},
		{"part of a text without a mark", CheckText, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[2].Outcome = "" })
		}},
		{"a scripted failure counts as complete", CheckText, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[2].Outcome = Completed })
		}},
		{"a failure without a fault", CheckText, func(_ *testing.T, ev *Evidence) {
			ev.Calm = true
			eachFinal(ev, func(s *Snapshot) { s.Runs[0].Outcome = Failed })
		}},
		{"a tool call is missing", CheckText, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[1].Tools = nil })
		}},
		{"run.completed with part of the text", CheckText, func(t *testing.T, ev *Evidence) {
			rewrite(t, *ev, "a2", EntryReceived, "run.completed", story[0].QID, story[0].QID+"#1 ", "")
		}},

		{"a later message runs first", CheckOrder, func(_ *testing.T, ev *Evidence) {
			eachFinal(ev, func(s *Snapshot) { s.Runs[1], s.Runs[2] = s.Runs[2], s.Runs[1] })
		}},
		{"the queue turns round", CheckOrder, func(t *testing.T, ev *Evidence) {
			i := find(t, *ev, "a2", EntryReceived, "run.queued", story[2].QID, 0)
			text := string(ev.Journals["a2"][i].Payload)
			text = strings.NewReplacer(story[1].QID, story[2].QID, story[2].QID, story[1].QID).Replace(text)
			ev.Journals["a2"][i].Payload = []byte(text)
		}},
		{"the gateway is called in another order", CheckOrder, func(_ *testing.T, ev *Evidence) { ev.Calls[0].At = time.Hour }},
		{"the queue is shown before a start", CheckOrder, func(t *testing.T, ev *Evidence) {
			i := find(t, *ev, "a2", EntryReceived, "run.queued", story[2].QID, 0)
			e := ev.Journals["a2"][i]
			j := find(t, *ev, "a2", EntryReceived, "run.peer_user_message", story[1].QID, 0)
			ev.Journals["a2"] = append(ev.Journals["a2"][:j+1], append([]Entry{e}, ev.Journals["a2"][j+1:]...)...)
		}},

		{"a message told as failed runs", CheckRefusal, func(t *testing.T, ev *Evidence) {
			i := find(t, *ev, "a1", EntrySent, "run", story[0].QID, 0)
			refusal := ev.Journals["a1"][i]
			refusal.What, refusal.Name = EntryReceived, "run.failed"
			refusal.Payload = []byte(`{"session_id":"` + storySession + `","queue_id":"` + story[0].QID + `","error":"could not be stored"}`)
			ev.Journals["a1"] = append(ev.Journals["a1"][:i+1], append([]Entry{refusal}, ev.Journals["a1"][i+1:]...)...)
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			ev := goodStory()
			c.spoil(t, &ev)
			found := Check(ev)
			for _, v := range found {
				if v.Check == c.check {
					return
				}
			}
			t.Errorf("%s is not found; found: %v", c.check, found)
		})
	}
}

// eachFinal changes the final snapshots of all nodes alike.
func eachFinal(ev *Evidence, change func(*Snapshot)) {
	for i := range ev.Final[storySession] {
		s := &ev.Final[storySession][i]
		s.Runs = append([]Run(nil), s.Runs...)
		change(s)
	}
}

// What the contract allows is no violation.
func TestAllowedStories(t *testing.T) {
	for _, c := range []struct {
		what string
		tell func(t *testing.T, ev *Evidence)
	}{
		{"a message is refused and given up", func(_ *testing.T, ev *Evidence) {
			last := story[3]
			last.QID += "9"
			s := &teller{ev: *ev, now: time.Hour}
			s.send(last)
			s.add("a1", EntryReceived, "run.failed", map[string]any{"queue_id": last.QID, "error": "could not be stored"})
		}},
		{"the end of a message is told again to who sends it again", func(t *testing.T, ev *Evidence) {
			s := &teller{ev: *ev, now: time.Hour}
			s.send(story[0])
			s.add("a1", EntryReceived, "run.completed", map[string]any{"output": story[0].Text(), "queue_remaining": 0})
		}},
		{"a snapshot makes good a text that an ending cut short", func(t *testing.T, ev *Evidence) {
			drop(t, *ev, "a2", "message.delta", words(story[2], 2))
			s := &teller{ev: *ev, now: time.Hour}
			s.add("a2", EntryReceived, "resumed", s.snapshot(3, false))
		}},
		{"a stranger is told that there is nothing to stop", func(_ *testing.T, ev *Evidence) {
			s := &teller{ev: *ev, now: time.Hour}
			s.add("b1", EntryReceived, "abort.completed", map[string]any{"synced": false, "ignored": true})
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			ev := goodStory()
			c.tell(t, &ev)
			for _, v := range Check(ev) {
				t.Error(v)
			}
		})
	}
}

// A plan is a function of its seed.
func TestPlansRepeat(t *testing.T) {
	a, b := NewPlan(7, time.Minute, 3, AllFaults), NewPlan(7, time.Minute, 3, AllFaults)
	if a.String() != b.String() {
		t.Errorf("two plans of one seed:\n%s\n%s", a, b)
	}
	if other := NewPlan(8, time.Minute, 3, AllFaults); other.String() == a.String() || len(a.Steps) < 5 {
		t.Errorf("plans of two seeds:\n%s\n%s", a, other)
	}
}

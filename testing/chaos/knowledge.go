package chaos

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

// Fields of the payloads that the tests look at.
type payload struct {
	SessionID string          `json:"session_id"`
	QueueID   string          `json:"queue_id"` // only of a refusal
	RunID     string          `json:"run_id"`
	Delta     string          `json:"delta"`
	Output    string          `json:"output"`
	Error     string          `json:"error"`
	Ignored   bool            `json:"ignored"`
	Dequeued  string          `json:"dequeued_queue_id"`
	Queue     []queuedMessage `json:"queued_messages"`
	Tool      string          `json:"tool_call_id"`
	Message   struct {
		ID any `json:"id"`
	} `json:"message"`
	Remaining *int `json:"queue_remaining"`
	Length    *int `json:"queue_length"`
}

type queuedMessage struct {
	ID string `json:"id"`
}

func (p payload) queueIDs() []string {
	ids := make([]string, 0, len(p.Queue))
	for _, m := range p.Queue {
		ids = append(ids, m.ID)
	}
	return ids
}

func parsePayload(raw json.RawMessage) payload {
	var p payload
	// What does not fit shows as a field that is missing.
	_ = json.Unmarshal(raw, &p)
	return p
}

// isEnding tells the terminal events of a run from refusals and empty answers.
func isEnding(name string, p payload) bool {
	switch name {
	case "run.completed":
		return true
	case "run.failed":
		return p.QueueID == ""
	case "abort.completed":
		return !p.Ignored
	}
	return false
}

// outgoing is one message of a client, as far as the client knows.
type outgoing struct {
	message Message
	session string
	sentAt  time.Time
	sends   int
	known   bool // somebody has confirmed it
	refused bool // told that it was not stored
	givenUp bool
	// unanswered counts how often it was sent again behind a snapshot, on a
	// connection that stayed, without any answer.
	unanswered int
}

const maxUnanswered = 3

// knowledge is what a client has learnt of its sessions. The client's actor and
// its reader use it.
type knowledge struct {
	exist *sync.Map // sessions of all users that exist for certain

	mu      sync.Mutex
	out     map[string]*outgoing
	order   []string
	joined  map[string]bool
	queued  map[string][]string
	working map[string]bool
}

func newKnowledge(exist *sync.Map) *knowledge {
	return &knowledge{
		exist: exist, out: make(map[string]*outgoing), joined: make(map[string]bool),
		queued: make(map[string][]string), working: make(map[string]bool),
	}
}

// learn takes an event in.
func (k *knowledge) learn(r wire.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Name == "resumed" {
		k.learnSnapshot(r.Payload)
		return
	}
	p := parsePayload(r.Payload)
	switch {
	case r.Name == "run.failed" && p.QueueID != "":
		k.learnRefusal(p)
	case isEnding(r.Name, p):
		k.working[p.SessionID] = false
		k.confirm(qidOf(p.Output))
	case r.Name == "run.queued":
		k.queued[p.SessionID] = p.queueIDs()
		for _, qid := range k.queued[p.SessionID] {
			k.confirm(qid)
		}
		if p.Dequeued != "" {
			k.working[p.SessionID] = true
			k.confirm(p.Dequeued)
		}
	case r.Name == "run.peer_user_message":
		k.working[p.SessionID] = true
		if id, ok := p.Message.ID.(string); ok {
			k.confirm(id)
		}
	case r.Name == "run.started":
		k.working[p.SessionID] = true
	case r.Name == "message.delta":
		k.confirm(qidOf(p.Delta))
	case strings.HasPrefix(r.Name, "tool."):
		qid, _, _ := strings.Cut(p.Tool, "!")
		k.confirm(qid)
	}
}

func (k *knowledge) learnSnapshot(raw json.RawMessage) {
	s, err := ParseSnapshot(raw)
	if err != nil {
		return // the checker reports it
	}
	k.joined[s.Session] = true
	k.working[s.Session] = s.Working
	k.queued[s.Session] = s.Queued
	for _, qid := range s.Queued {
		k.confirm(qid)
	}
	for _, run := range s.Runs {
		k.confirm(run.QID)
	}
}

func (k *knowledge) confirm(qid string) {
	if o := k.out[qid]; o != nil {
		o.known, o.refused = true, false
		k.exist.Store(o.session, true)
	}
}

func (k *knowledge) learnRefusal(p payload) {
	if o := k.out[p.QueueID]; o != nil && !o.known {
		o.refused = true
	}
}

// sending notes that a message is sent, for the first time or again.
func (k *knowledge) sending(session string, m Message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o := k.out[m.QID]
	if o == nil {
		o = &outgoing{message: m, session: session}
		k.out[m.QID] = o
		k.order = append(k.order, m.QID)
	}
	o.sentAt, o.refused = time.Now(), false
	o.sends++
}

// unanswered notes that a message is sent again because nothing has come for long.
func (k *knowledge) unanswered(qid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.out[qid].unanswered++
}

// lost forgets what only holds for a connection that is not continued.
func (k *knowledge) lost() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.joined)
	for _, o := range k.out {
		o.unanswered = 0
	}
}

func (k *knowledge) notJoined(sessions []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(sessions), func(s string) bool { return k.joined[s] })
}

// unconfirmed returns the messages nobody has confirmed for some time, in order.
// Those that were refused are decided by again.
func (k *knowledge) unconfirmed(after time.Duration, again func() bool) []outgoing {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []outgoing
	for _, qid := range k.order {
		o := k.out[qid]
		switch {
		case o.known || o.givenUp:
		case o.refused && !again():
			o.givenUp = true
		case o.unanswered >= maxUnanswered:
			// Cancelled by another window while the first answer got lost.
			o.givenUp = true
		case o.refused || time.Since(o.sentAt) >= after:
			due = append(due, *o)
		}
	}
	return due
}

// open counts the messages whose fate the client does not know.
func (k *knowledge) open() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, o := range k.out {
		if !o.known && !o.givenUp {
			n++
		}
	}
	return n
}

// load is how much waits in a session as far as the client knows.
func (k *knowledge) load(session string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := len(k.queued[session])
	for _, o := range k.out {
		if o.session == session && !o.known && !o.givenUp {
			n++
		}
	}
	return n
}

func (k *knowledge) busy(session string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.working[session]
}

func (k *knowledge) waiting(session string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.queued[session])
}

// some returns a message that was confirmed, chosen by pick.
func (k *knowledge) some(pick func(n int) int) (outgoing, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.order) == 0 {
		return outgoing{}, false
	}
	o := k.out[k.order[pick(len(k.order))]]
	return *o, o.known
}

package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind says how the gateway answers a message.
type Kind string

// Kinds of answers.
const (
	KindText    Kind = "text"    // words, then the end
	KindTools   Kind = "tools"   // words with two tool calls between them
	KindFailed  Kind = "failed"  // words, then response.failed
	KindCut     Kind = "cut"     // words, then the stream ends without a terminal event
	KindRefused Kind = "refused" // status 500
	KindBusy    Kind = "busy"    // 429 twice, then like KindText
)

// Outcome is how a run ended.
type Outcome string

// Outcomes of a run, and of a message that is none.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Aborted   Outcome = "aborted"
	// Unmarked is an ending that has left no row: the run had no text.
	Unmarked Outcome = "unmarked"
)

// Message is one user message. Its id and its answer are functions of each other.
type Message struct {
	QID   string
	Kind  Kind
	Words int
	Pace  time.Duration // between words
}

const inputMark = "chaos"

// Input is the text of the message.
func (m Message) Input() string {
	return fmt.Sprintf("%s %s %s %d %d", inputMark, m.QID, m.Kind, m.Words, m.Pace.Milliseconds())
}

// ParseMessage reads the text of a message.
func ParseMessage(input string) (Message, bool) {
	f := strings.Fields(input)
	if len(f) != 5 || f[0] != inputMark {
		return Message{}, false
	}
	words, err := strconv.Atoi(f[3])
	pace, err2 := strconv.Atoi(f[4])
	if err != nil || err2 != nil {
		return Message{}, false
	}
	return Message{QID: f[1], Kind: Kind(f[2]), Words: words, Pace: time.Duration(pace) * time.Millisecond}, true
}

// Item is a piece of an answer: a word, or a whole tool call.
type Item struct {
	Word string
	Tool string // call id
}

// Answer is everything the gateway sends for the message, in order.
func (m Message) Answer() []Item {
	if m.Kind == KindRefused {
		return nil
	}
	items := make([]Item, 0, m.Words+2)
	for i := range m.Words {
		if m.Kind == KindTools && i > 0 && i%(m.Words/3+1) == 0 {
			items = append(items, Item{Tool: m.QID + "!" + strconv.Itoa(i)})
		}
		items = append(items, Item{Word: m.QID + "#" + strconv.Itoa(i) + " "})
	}
	return items
}

// Text is the whole text of the answer.
func (m Message) Text() string {
	var b strings.Builder
	for _, item := range m.Answer() {
		b.WriteString(item.Word)
	}
	return b.String()
}

// ToolsAt returns the calls of the answer with the length of the text before each.
func (m Message) ToolsAt() map[string]int {
	at, tools := 0, make(map[string]int)
	for _, item := range m.Answer() {
		if item.Tool != "" {
			tools[item.Tool] = at
		}
		at += len(item.Word)
	}
	return tools
}

// Outcome is how the message ends if nothing comes between.
func (m Message) Outcome() Outcome {
	switch m.Kind {
	case KindFailed, KindCut, KindRefused:
		return Failed
	default:
		return Completed
	}
}

// qidOf reads the message that a text of an answer belongs to.
func qidOf(text string) string {
	qid, _, found := strings.Cut(text, "#")
	if !found || strings.ContainsAny(qid, " \n") {
		return ""
	}
	return qid
}

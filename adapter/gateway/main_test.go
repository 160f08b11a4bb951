package gateway

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// transcript is an EventHandler that writes every event down as one line.
type transcript struct {
	lines      []string
	text       strings.Builder
	keepAlives int
	onEvent    func(line string)
}

func (r *transcript) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.lines = append(r.lines, line)
	if r.onEvent != nil {
		r.onEvent(line)
	}
}

func (r *transcript) Created(c Created) { r.add("created %s %s", c.ResponseID, c.Model) }
func (r *transcript) TextDelta(text string) {
	r.text.WriteString(text)
	r.add("delta %s", text)
}
func (r *transcript) TextDone()               { r.add("text done") }
func (r *transcript) ToolStarted(c ToolCall)  { r.add("start %s %s %s", c.CallID, c.Name, c.Arguments) }
func (r *transcript) ToolCallDone(c ToolCall) { r.add("call %s %s %s", c.CallID, c.Name, c.Arguments) }
func (r *transcript) ToolOutput(o ToolOutput) { r.add("output %s %s", o.CallID, o.Output) }
func (r *transcript) KeepAlive() {
	r.keepAlives++
	r.add("keep-alive")
}

func (r *transcript) Pause() {}

func (r *transcript) String() string { return strings.Join(r.lines, "\n") }

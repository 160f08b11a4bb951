//go:build unix

package scaleout

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// panel is what one run.queued event shows.
func panel(e chat.Event) string {
	var p struct {
		Length   int                   `json:"queue_length"`
		Dequeued string                `json:"dequeued_queue_id"`
		Queue    []struct{ ID string } `json:"queued_messages"`
	}
	if err := json.Unmarshal([]byte(e.Raw), &p); err != nil {
		return err.Error()
	}
	ids := make([]string, 0, len(p.Queue))
	for _, q := range p.Queue {
		ids = append(ids, q.ID)
	}
	return fmt.Sprintf("%d [%s] -%s", p.Length, strings.Join(ids, " "), p.Dequeued)
}

func panels(events []chat.Event) []string {
	var all []string
	for _, e := range chat.Named(events, "run.queued") {
		all = append(all, panel(e))
	}
	return all
}

// heldFailure fails the message "fails" when it is released.
func heldFailure(turn *fakegateway.Turn) {
	if turn.Input != "fails" {
		fakegateway.Keywords(turn)
		return
	}
	wait := turn.Held()
	turn.Created()
	turn.Delta("half")
	wait()
	turn.Fail("Error code: 503 - upstream overloaded")
}

// QUE-01, QUE-02: messages through both nodes wait in one queue; both nodes show each
// change of it once, however the run before has ended.
func TestOneQueueOverTwoNodes(t *testing.T) {
	for how, release := range map[string]struct {
		first string
		end   func(c *cluster, far *chat.Client)
	}{
		"completed": {"[[hold]]", func(c *cluster, _ *chat.Client) { c.gateway.Release() }},
		"aborted":   {"[[hold]]", func(_ *cluster, far *chat.Client) { far.Abort("s1") }},
		"failed":    {"fails", func(c *cluster, _ *chat.Client) { c.gateway.Release() }},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{})
			c.gateway.SetScript(heldFailure)
			a, b := c.nodes[0].watch("s1"), c.nodes[1].watch("s1")
			a.Run("s1", "q0", release.first)
			c.held(1)
			for i := 1; i <= 4; i++ {
				a.Run("s1", "q"+strconv.Itoa(i), "message "+strconv.Itoa(i))
			}
			a.UntilThat("four waiting messages", queueIs(4))
			b.Run("s1", "q5", "message 5")
			seenB := b.UntilThat("five waiting messages", queueIs(5))
			a.UntilThat("five waiting messages", queueIs(5))
			if want := []string{"1 [q1] -", "2 [q1 q2] -", "3 [q1 q2 q3] -", "4 [q1 q2 q3 q4] -", "5 [q1 q2 q3 q4 q5] -"}; !slices.Equal(panels(seenB), want) {
				t.Errorf("the queue grows on the other node: %q", panels(seenB))
			}
			release.end(c, b)
			seenA := a.UntilThat("the end of the queue", ends("s1"))
			seenB = b.UntilThat("the end of the queue", ends("s1"))
			want := []string{"4 [q2 q3 q4 q5] -q1", "3 [q3 q4 q5] -q2", "2 [q4 q5] -q3", "1 [q5] -q4", "0 [] -q5"}
			for who, seen := range map[string][]chat.Event{"first": seenA, "second": seenB} {
				if !slices.Equal(panels(seen), want) {
					t.Errorf("%s node: %q", who, panels(seen))
				}
				var remaining []int
				for _, e := range seen {
					if isEnding(e) {
						remaining = append(remaining, e.Number("queue_remaining"))
					}
				}
				if !slices.Equal(remaining[max(0, len(remaining)-6):], []int{5, 4, 3, 2, 1, 0}[6-min(6, len(remaining)):]) {
					t.Errorf("%s node: queue_remaining %v", who, remaining)
				}
				if text := chat.TextOf(seen); !strings.HasSuffix(text, "echo: message 1echo: message 2echo: message 3echo: message 4echo: message 5") {
					t.Errorf("%s node: %q", who, text)
				}
			}
		})
	}
}

// QUE-04: the same message sent again, three times at once and through the other
// node, while it waits, runs and after its end: it runs once and is shown once.
func TestTheSameMessageThroughBothNodes(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	a, b := c.nodes[0].alice(), c.nodes[1].alice()
	for range 3 {
		a.Run("s1", "q1", "[[hold]]")
		b.Run("s1", "q1", "[[hold]]")
	}
	c.held(1)
	a.UntilThat("text", isNamed("message.delta"))
	b.Run("s1", "q1", "[[hold]]")
	a.Run("s1", "q2", "second")
	a.UntilThat("a waiting message", queueIs(1))
	b.Run("s1", "q2", "second")
	c.gateway.Release()
	for _, w := range []*chat.Client{a, b} {
		w.UntilThat("the end", ends("s1"))
	}
	late := c.nodes[1].alice()
	late.Run("s1", "q1", "[[hold]]")
	late.UntilThat("the stored ending", isEnding)
	if rows := settle(t, c.nodes[0], "s1"); !slices.Equal(rows, []string{
		"user: [[hold]]", "assistant: held released", "user: second", "assistant: echo: second",
	}) {
		t.Errorf("transcript %q", rows)
	}
	c.once("[[hold]]", "second")
}

// QUE-06: messages sent in the moment in which an answer ends, by turns through both
// nodes: each is answered, none waits beside an idle session.
func TestMessagesInTheClosingMoment(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	senders := []*chat.Client{c.nodes[0].watch("s1"), c.nodes[1].watch("s1")}
	observer := c.nodes[0].watch("s1")
	rng := rand.New(rand.NewPCG(1, 2))
	const messages = 60
	moments := []string{"run.started", "message.delta", "usage.updated", "run.completed"}
	for i := range messages {
		senders[i%2].Run("s1", "q"+strconv.Itoa(i), "m"+strconv.Itoa(i))
		observer.Until("run.started")
		if moment := moments[rng.IntN(len(moments))]; moment != "run.started" && i < messages-1 {
			observer.Until(moment)
		}
		elapse(t, time.Duration(rng.IntN(4000))*time.Microsecond)
	}
	observer.UntilThat("the last answer", func(e chat.Event) bool {
		return e.Name == "run.completed" && e.Text("output") == "echo: m"+strconv.Itoa(messages-1)
	})
	answered := len(c.gateway.Turns())
	rows := settle(t, c.nodes[1], "s1")
	var want []string
	for i := range messages {
		want = append(want, "assistant: echo: m"+strconv.Itoa(i))
	}
	var got []string
	for _, row := range rows {
		if strings.HasPrefix(row, "assistant: ") {
			got = append(got, row)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || answered != messages {
		t.Errorf("%d of %d answers, %d turns: %q", len(got), messages, answered, rows)
	}
}

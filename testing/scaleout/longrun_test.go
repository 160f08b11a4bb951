//go:build unix

package scaleout

import (
	"strconv"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// RED-05: a run of 50,000 pieces of text. Windows that come at its start, in its
// middle, near its end and after it have all of it; Redis keeps a bounded log.
func TestAVeryLongRun(t *testing.T) {
	t.Parallel()
	const pieces = 50_000
	c := start(t, setup{redis: []string{"--appendfsync", "everysec"}})
	first := c.follow("s1", c.nodes[1])
	c.nodes[0].alice().Run("s1", "q1", "[[load "+strconv.Itoa(pieces)+" 5000]]")
	all := []*follower{first}
	size := 0
	for range 3 {
		size += 450_000
		first.until("more text", func() bool { return len(first.text) > size || len(first.endings) > 0 })
		late := c.follow("s1", c.nodes[0], c.nodes[1])
		late.until("a snapshot", func() bool { return late.snapshots > 0 })
		all = append(all, late)
		if n, err := strconv.Atoi(c.redis.Do("MEMORY", "USAGE", "hermes:e{s:s1}", "SAMPLES", "0")); err != nil || n > maxLogBytes {
			t.Errorf("the log takes %d bytes, %v", n, err)
		}
	}
	for i, f := range all {
		// A window that came after the end has it in its snapshot.
		f.until("the ending", func() bool { return !f.working && f.text != "" })
		t.Logf("window %d: %d snapshots, %d connections lost", i, f.snapshots, f.lost)
		if i > 0 && f.text != first.text {
			t.Errorf("window %d: %d bytes, the first one has %d", i, len(f.text), len(first.text))
		}
	}
	if len(first.text) < pieces*30 {
		t.Errorf("%d bytes of text", len(first.text))
	}
	last := c.follow("s1", c.nodes[1])
	last.until("a snapshot", func() bool { return last.snapshots > 0 })
	if last.text != first.text || last.working {
		t.Errorf("after the end: %d bytes, the first one has %d", len(last.text), len(first.text))
	}
	for _, f := range append(all, last) {
		for _, fault := range f.faults {
			t.Error(fault)
		}
	}
	if n := len(chat.Rows(c.nodes[0].alice().Resume("s1"))); n != 2 {
		t.Errorf("%d rows", n)
	}
}

// maxLogBytes is what the log of a session may take in Redis (contract section 10).
const maxLogBytes = 4 << 20

//go:build unix

package scaleout

import (
	"testing"
	"time"
)

// outage is how long a node is cut off.
const outage = 3 * time.Second

// RED-03: a node is cut off from Redis for a moment while it shows, or carries out, a
// run of the other node, once in the middle and once across the ending. Afterwards
// windows on both nodes have the exact text and one ending.
func TestANodeIsCutOffFromRedis(t *testing.T) {
	for name, tc := range map[string]struct {
		cut  int // the node that is cut off; the run is the first one's
		text string
		long int
	}{
		"watcher in the middle":     {1, "[[slow 600 10ms]]", 600},
		"watcher across the ending": {1, "[[slow 200 10ms]]", 200},
		"owner in the middle":       {0, "[[slow 600 10ms]]", 600},
		"owner across the ending":   {0, "[[slow 200 10ms]]", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{behind: true})
			near, far := c.follow("s1", c.nodes[0]), c.follow("s1", c.nodes[1])
			c.nodes[0].alice().Run("s1", "q1", tc.text)
			for _, f := range []*follower{near, far} {
				f.until("some text", func() bool { return len(f.text) > len(words(1, 30)) })
			}
			c.nodes[tc.cut].link.setCut(true)
			elapse(t, outage)
			c.nodes[tc.cut].link.setCut(false)
			for _, f := range []*follower{near, far} {
				f.until("the ending", func() bool { return !f.working })
				f.check(words(1, tc.long))
				t.Logf("%d snapshots, %d connections lost", f.snapshots, f.lost)
			}
			if rows := settle(t, c.nodes[1], "s1"); len(rows) != 2 || rows[1] != "assistant: "+words(1, tc.long) {
				t.Errorf("transcript %q", rows)
			}
			c.once(tc.text)
		})
	}
}

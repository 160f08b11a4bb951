//go:build unix

package scaleout

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// switchover is how long writes may take to find the new primary.
const switchover = 10 * time.Second

// RED-02: the roles of two Redis servers change during a run with a message waiting,
// by a planned failover, after which the old primary stays up read-only, and by its
// death. Sentinel tells the nodes.
func TestFailover(t *testing.T) {
	for name, fail := range map[string]func(t *testing.T, sentinel, primary *redisserver.Server){
		"planned": func(t *testing.T, sentinel, _ *redisserver.Server) {
			if answer := sentinel.Do("SENTINEL", "FAILOVER", "chats"); answer != "OK" {
				t.Fatal(answer)
			}
		},
		"after the death of the primary": func(_ *testing.T, _, primary *redisserver.Server) { primary.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redisserver.Start(t)
			host, port, err := net.SplitHostPort(primary.Addr)
			if err != nil {
				t.Fatal(err)
			}
			replica := redisserver.Start(t, "--replicaof", host+" "+port)
			eventually(t, "the replica follows", func() bool {
				return strings.Contains(replica.Do("INFO", "replication"), "master_link_status:up")
			})
			sentinel := redisserver.StartSentinel(t, "chats", primary)
			eventually(t, "the sentinel knows the replica", func() bool {
				return strings.Contains(sentinel.Do("INFO", "sentinel"), "slaves=1")
			})
			c := start(t, setup{url: "redis+sentinel://" + sentinel.Addr + "/chats"})
			near, far := c.follow("s1", c.nodes[0]), c.follow("s1", c.nodes[1])
			sender := c.nodes[0].alice()
			sender.Run("s1", "q1", "[[slow 1500 10ms]]")
			for _, f := range []*follower{near, far} {
				f.until("some text", func() bool { return len(f.text) > len(words(1, 30)) })
			}
			fail(t, sentinel, primary)
			eventually(t, "the replica is the primary", func() bool {
				return strings.Contains(replica.Do("INFO", "replication"), "role:master")
			})
			since := time.Now()
			probe := c.nodes[1].reach()
			for i := 0; ; i++ {
				probe.Run("s2", "probe", "hello")
				seen := probe.UntilThat("an ending", isEnding)
				if last := seen[len(seen)-1]; last.Name == "run.completed" {
					within(t, "writes go to the new primary", since, last.At, switchover)
					break
				}
				elapse(t, 200*time.Millisecond)
			}
			for _, f := range []*follower{near, far} {
				f.until("the ending", func() bool { return !f.working && strings.HasSuffix(f.text, "word1500 ") })
				f.check(words(1, 1500))
			}
			if rows := settle(t, c.nodes[1], "s1"); !slices.Equal(rows, []string{"user: [[slow 1500 10ms]]", "assistant: " + words(1, 1500)}) {
				t.Errorf("transcript %.200q", rows)
			}
			c.once("[[slow 1500 10ms]]", "hello")
		})
	}
}

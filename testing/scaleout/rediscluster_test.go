//go:build unix

package scaleout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// RED-06: whole nodes on a Redis Cluster of three: chats on all shards, scripts
// thrown away in mid-run, a node killed.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	shards := redisserver.StartCluster(t, 3)
	addrs := make([]string, 0, len(shards))
	for _, s := range shards {
		addrs = append(addrs, s.Addr)
	}
	c := start(t, setup{url: "redis+cluster://" + strings.Join(addrs, ",")})
	const chats = 9
	sessions := make([]string, 0, chats)
	followers := make([]*follower, 0, chats)
	for i := range chats {
		session := fmt.Sprintf("s:%d.%d-_", i, i*i)
		sessions = append(sessions, session)
		followers = append(followers, c.follow(session, c.nodes[(i+1)%2]))
		w := c.nodes[i%2].alice()
		w.Run(session, "q1-"+session, "[[slow 300 10ms]]")
		w.UntilThat("the start", isNamed("run.started"))
		w.Run(session, "q2-"+session, "second "+session)
		w.UntilThat("a waiting message", queueIs(1))
	}
	for _, s := range shards {
		if answer := s.Do("SCRIPT", "FLUSH"); answer != "OK" {
			t.Fatal(answer)
		}
	}
	for i, f := range followers {
		f.until("both endings", func() bool { return len(f.endings) == 2 })
		if want := words(1, 300) + "echo: second " + sessions[i]; f.text != want {
			t.Errorf("%s: …%q", sessions[i], tail(f.text))
		}
	}
	own := c.nodes[0].alice()
	own.Run("last", "q1", "[[hold]]")
	says(own, "held")
	own.Run("last", "q2", "after")
	own.UntilThat("a waiting message", queueIs(1))
	far := c.nodes[1].watch("last")
	c.nodes[0].Kill()
	if seen := far.UntilThat("the end", ends("last")); !strings.HasSuffix(chat.TextOf(seen), "echo: after") {
		t.Errorf("after the takeover:\n%s", chat.List(seen))
	}
	used := 0
	for _, s := range shards {
		if s.Do("DBSIZE") != "0" {
			used++
		}
	}
	if used != len(shards) {
		t.Errorf("%d of %d shards hold keys", used, len(shards))
	}
	for _, session := range sessions {
		c.once("second " + session)
	}
}

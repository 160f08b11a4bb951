//go:build unix

package scaleout

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// documentedRights are the words of the line "ACL SETUSER hermes …" in the README.
func documentedRights(t *testing.T) []any {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "ACL SETUSER hermes ")
	command, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("no ACL SETUSER hermes in the README")
	}
	words := []any{"ACL", "SETUSER", "hermes"}
	for _, word := range strings.Fields(strings.ReplaceAll(command, "\\\n", " ")) {
		words = append(words, word)
	}
	return words
}

// The rights of the README are enough for everything that nodes do, on one server
// and on a Redis Cluster: nothing is denied.
func TestDocumentedRightsAreEnough(t *testing.T) {
	for name, servers := range map[string]func() []*redisserver.Server{
		"one server": func() []*redisserver.Server { return []*redisserver.Server{redisserver.Start(t)} },
		"cluster":    func() []*redisserver.Server { return redisserver.StartCluster(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := servers()
			addrs := make([]string, 0, len(all))
			for _, s := range all {
				addrs = append(addrs, s.Addr)
				if got := s.Do(documentedRights(t)...); got != "OK" {
					t.Fatal(got)
				}
			}
			scheme := "redis://"
			if len(all) > 1 {
				scheme = "redis+cluster://"
			}
			c := start(t, setup{
				url:     scheme + "hermes:secret@" + strings.Join(addrs, ",") + " {\ndurability replica\n}",
				options: []string{"retention 30d"},
			})
			own, far := busy(t, c)
			cancel(far, "s1", "q2")
			own.UntilThat("one waiting message", queueIs(1))
			far.Abort("s1")
			own.UntilThat("the end", ends("s1"))
			sessions(t, c.nodes[1], own)
			own.Run("s2", "q1", "[[slow 400 10ms]]")
			says(own, "word20 ")
			own.Run("s2", "q2", "after")
			own.UntilThat("a waiting message", queueIs(1))
			far = c.nodes[1].watch("s2")
			for _, s := range all {
				s.Do("SCRIPT", "FLUSH")
			}
			c.nodes[0].Kill()
			if seen := far.UntilThat("the end", ends("s2")); !strings.HasSuffix(chat.TextOf(seen), "echo: after") {
				t.Errorf("taken over:\n%s", chat.List(seen))
			}
			if status, body := c.nodes[1].askAs(rootToken, http.MethodGet, "/chat-run/health/detailed", ""); status != http.StatusOK || strings.Contains(body, "ermission") {
				t.Errorf("health: %d %s", status, body)
			}
			for _, s := range all {
				if log := s.Do("ACL", "LOG"); log != "[]" {
					t.Errorf("denied: %s", log)
				}
			}
		})
	}
}

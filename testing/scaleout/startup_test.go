//go:build unix

package scaleout

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
)

// Design section 10: nodes that start before their Redis live, are not ready, send
// handshakes away with a time to come again, and serve as soon as it is there.
func TestRedisIsDownAtStart(t *testing.T) {
	t.Parallel()
	c := start(t, setup{down: true})
	c.redis.Kill()
	for _, n := range c.nodes {
		if err := n.Launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.nodes {
		eventually(t, n.name+" lives", func() bool {
			status, _ := n.ask(http.MethodGet, "/chat-run/health/live", "")
			return status == http.StatusOK
		})
		if status, body := n.ask(http.MethodGet, "/chat-run/health", ""); status != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
			t.Errorf("health: %d %s", status, body)
		}
		response, err := client.Get(n.URL + "/socket.io/?EIO=4&transport=polling")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("handshake: %s, Retry-After %q", response.Status, response.Header.Get("Retry-After"))
		}
	}
	c.redis.Restart()
	for _, n := range c.nodes {
		n.ready()
	}
	w := c.nodes[1].watch("s1")
	c.nodes[0].alice().Run("s1", "q1", "hello")
	if text := chat.TextOf(w.UntilThat("an answer", ends("s1"))); text != "echo: hello" {
		t.Errorf("%q", text)
	}
}

// A Redis that may throw keys away is named in the health of the nodes and in their
// log (contract 9.5).
func TestEvictionPolicyIsReported(t *testing.T) {
	t.Parallel()
	c := start(t, setup{redis: []string{"--maxmemory-policy", "allkeys-lru"}})
	n := c.nodes[0]
	eventually(t, "health names the policy", func() bool {
		status, body := n.askAs(rootToken, http.MethodGet, "/chat-run/health/detailed", "")
		return status == http.StatusOK && strings.Contains(body, "noeviction")
	})
	eventually(t, "the log names it", func() bool { return strings.Contains(n.Log(), "noeviction") })
}

//go:build unix

package scaleout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// RES-01: the reply ends while its window is away; on the other node it is whole.
func TestReplyFinishedWhileAway(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	w := c.nodes[0].alice()
	w.Run("s1", "q1", "[[slow 200 5ms]]")
	says(w, "word50 ")
	w.Close()
	c.await("the turn ends", func(s fakegateway.State) bool { return s.Active == 0 })
	rows := settle(t, c.nodes[1], "s1")
	if len(rows) != 2 || rows[1] != "assistant: "+words(1, 200) {
		t.Errorf("transcript %q", rows)
	}
}

// RES-02: a window that reconnects all the time, from node to node, shows the answer
// exactly.
func TestResumesWithoutEnd(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	c.nodes[0].watch("s1").Run("s1", "q1", "[[slow 1200 3ms]]")
	f := c.follow("s1", c.nodes[1], c.nodes[0])
	next := time.Now()
	f.until("the ending", func() bool {
		if time.Now().After(next) && f.text != "" && len(f.endings) == 0 {
			f.drop()
			next = time.Now().Add(150 * time.Millisecond)
		}
		return len(f.endings) > 0 || f.snapshots > 3 && !f.working && f.text != ""
	})
	f.check(words(1, 1200))
	if f.snapshots < 5 {
		t.Errorf("only %d snapshots", f.snapshots)
	}
}

// RES-04: one connection follows two chats, which stream on different nodes; a third
// connection follows only one.
func TestTwoChatsOnOneConnection(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	both, one := c.nodes[1].watch("s1"), c.nodes[1].watch("s2")
	both.Resume("s2")
	c.nodes[0].alice().Run("s1", "q1", "[[slow 100 5ms]]")
	c.nodes[1].alice().Run("s2", "q2", "[[load 100 200]]")
	done := map[string]bool{}
	seen := both.UntilThat("both endings", func(e chat.Event) bool {
		if isEnding(e) {
			done[e.Text("session_id")] = true
		}
		return len(done) == 2
	})
	texts := map[string]string{}
	for _, e := range seen {
		session := e.Text("session_id")
		if session != "s1" && session != "s2" {
			t.Errorf("an event of no chat: %s %s", e.Name, e.Raw)
		}
		texts[session] += chat.TextOf([]chat.Event{e})
	}
	if texts["s1"] != words(1, 100) || strings.Contains(texts["s2"], "word1 ") {
		t.Errorf("s1 …%q, s2 …%q", tail(texts["s1"]), tail(texts["s2"]))
	}
	for _, e := range one.UntilThat("the ending", isEnding) {
		if e.Text("session_id") != "s2" {
			t.Errorf("an event of a chat that the window does not follow: %s", e.Raw)
		}
	}
}

// RES-05: three windows on two nodes and two transports show the same messages, each
// user message once.
func TestThreeWindows(t *testing.T) {
	t.Parallel()
	c := start(t, setup{})
	a, b := c.nodes[0].watch("s1"), c.nodes[1].watch("s1")
	a.Run("s1", "q1", "[[hold]] by a")
	c.held(1)
	b.UntilThat("text", isNamed("message.delta"))
	b.Run("s1", "q2", "by b")
	a.UntilThat("a waiting message", queueIs(1))
	late := chat.Open(t, chat.Options{URLs: []string{c.nodes[1].URL, c.nodes[0].URL}, Token: aliceToken, Kind: wire.Polling})
	late.Resume("s1")
	a.Abort("s1")
	peers := map[string][]string{}
	for who, w := range map[string]*chat.Client{"a": a, "b": b, "late": late} {
		seen := w.UntilThat("the end", ends("s1"))
		for _, e := range chat.Named(seen, "run.peer_user_message") {
			message, _ := e.Payload["message"].(map[string]any)
			content, _ := message["content"].(string)
			peers[who] = append(peers[who], content)
		}
		if chat.TextOf(seen[slices.IndexFunc(seen, isNamed("abort.completed")):]) != "echo: by b" {
			t.Errorf("%s:\n%s", who, chat.List(seen))
		}
	}
	if len(peers["b"]) != 0 || !slices.Equal(peers["a"], []string{"by b"}) || !slices.Equal(peers["late"], []string{"by b"}) {
		t.Errorf("messages of others: %q", peers)
	}
	if x, y := settle(t, c.nodes[0], "s1"), settle(t, c.nodes[1], "s1"); !slices.Equal(x, y) || len(x) != 4 {
		t.Errorf("transcripts %q and %q", x, y)
	}
}

// Long-polling without stickiness: each request of a connection goes to the next
// node; the way over to WebSocket leads through another node as well.
func TestLongPollingThroughAnyNode(t *testing.T) {
	for _, kind := range []wire.Kind{wire.Polling, wire.Upgrade} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := start(t, setup{nodes: 3})
			urls := []string{c.nodes[0].URL, c.nodes[1].URL, c.nodes[2].URL}
			w := chat.Open(t, chat.Options{URLs: urls, Token: aliceToken, Kind: kind})
			w.Run("s1", "q1", "[[slow 200 5ms]]")
			seen := w.UntilThat("the end", ends("s1"))
			if got := chat.TextOf(seen); got != words(1, 200) {
				t.Errorf("%q", got)
			}
			w.Run("s1", "q2", "again")
			if got := chat.TextOf(w.UntilThat("the end", ends("s1"))); got != "echo: again" {
				t.Errorf("%q", got)
			}
		})
	}
}

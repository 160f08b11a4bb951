//go:build unix

package edge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// twoNodes are two cores on one Redis.
func twoNodes(t *testing.T, change func(*Settings)) (a, b *env) {
	t.Helper()
	r := redisserver.Start(t)
	a = start(t, func(s *Settings) {
		sharing(r)(s)
		if change != nil {
			change(s)
		}
	})
	return a, a.startNode(nil)
}

// saved waits until what the store knows of a client is what this node knows.
func (e *env) saved(c *client) {
	e.t.Helper()
	s := e.core.sockets.byID(c.sid)
	if s == nil {
		e.t.Fatal("no such socket")
	}
	eventually(e.t, "the record is saved", func() bool { return e.touched(s) == store.OK && !s.saving() })
}

// H27, H29: a client in three rooms, whose connection to one node is half open,
// continues on the other. The rooms moved in turn; the last token names the last
// packet of one of them only as far as nothing has been confirmed.
func TestRecoveryOnAnotherNodeH27H29(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprint("confirmed ", confirmed), func(t *testing.T) {
			a, b := twoNodes(t, func(s *Settings) {
				if confirmed {
					s.Timeouts.PingInterval = 10 * time.Millisecond
				}
			})
			script := a.script("in a", "in b", "in c")
			c, witness := a.client(aliceToken), b.client(aliceToken)
			for _, room := range []string{"a", "b", "c"} {
				witness.resume(room)
				c.run(room, "q-"+room, "in "+room)
				script.stream(c, "in "+room, "1")
				witness.next("message.delta")
			}
			if confirmed {
				c.confirmed()
			}
			for _, room := range []string{"b", "a"} {
				script.stream(c, "in "+room, "2")
				witness.next("message.delta")
			}
			a.saved(c)
			close(c.mute)
			place := c.offset
			for _, room := range []string{"c", "b", "a"} { // reach the half open connection, but not the client
				script.stream(witness, "in "+room, "missed")
			}
			c.offset = place
			n := c.again(b.server.URL, aliceToken)
			if n.sid != c.sid || n.pid != c.pid {
				t.Errorf("ids %s %s, want %s %s", n.sid, n.pid, c.sid, c.pid)
			}
			c.awaitClose() // by the notice: nothing is saved there any more
			var got []received
			for range 3 {
				got = append(got, n.next("message.delta"))
			}
			if got, want := texts(got), "a:missed b:missed c:missed"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			n.quiet()
			for _, room := range []string{"a", "b", "c"} {
				script.stream(n, "in "+room, "3")
				witness.next("message.delta")
				close(script["in "+room])
				n.next("run.completed")
				witness.next("run.completed")
			}
		})
	}
}

// What the old node still saves counts for nothing, whatever it believes that its
// client has got.
func TestOldHolderIsRefusedH29(t *testing.T) {
	a, b := twoNodes(t, nil)
	script := a.script("hello")
	c, witness := a.client(aliceToken), b.client(aliceToken)
	witness.resume("s1")
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	witness.next("message.delta")
	a.saved(c)
	old := a.core.sockets.byID(c.sid)
	n := c.again(b.server.URL, aliceToken)
	c.awaitClose()
	if err := old.settled(t.Context()); err != nil { // its last save
		t.Fatal(err)
	}
	script.stream(n, "hello", "2")
	witness.next("message.delta")
	n.drop()
	script.stream(witness, "hello", "3")
	m := n.again(a.server.URL, aliceToken) // and back
	if m.sid != c.sid {
		t.Errorf("sid %s, want %s", m.sid, c.sid)
	}
	if got := texts([]received{m.next("message.delta")}); got != "s1:3" {
		t.Errorf("got %s", got)
	}
	script.finish(witness, "hello")
	m.next("run.completed")
}

// The same refusals as on one node.
func TestRecoveryOnAnotherNodeIsRefused(t *testing.T) {
	a, b := twoNodes(t, nil)
	script := a.script("hello")
	c := a.client(aliceToken)
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	a.saved(c)
	connect := func(token, pid, offset string) *client {
		n := dial(t, b.server.URL, "")
		if refused := n.connect(map[string]any{"token": token, "pid": pid, "offset": offset}); refused != "" {
			t.Fatal(refused)
		}
		return n
	}
	t.Run("another user", func(t *testing.T) { fresh(t, connect(bobToken, c.pid, c.offset), c) })
	t.Run("H28 offset of an earlier pid", func(t *testing.T) {
		second := connect(aliceToken, "", "")
		fresh(t, connect(aliceToken, second.pid, c.offset), second)
	})
	t.Run("unknown pid", func(t *testing.T) {
		pid := randomName(16)
		fresh(t, connect(aliceToken, pid, pidPrefix(pid)+".0:1:abc0"), c)
	})
	c.quiet() // nobody has disturbed the one who holds it
	script["hello"] <- "2"
	if got := texts([]received{c.next("message.delta")}); got != "s1:2" {
		t.Errorf("got %s", got)
	}
	close(script["hello"])
	c.next("run.completed")
}

// A record that has expired is continued nowhere.
func TestExpiredRecordOnAnotherNode(t *testing.T) {
	a, b := twoNodes(t, func(s *Settings) { s.Timeouts.Recovery = time.Millisecond })
	c, _ := a.followed()
	sock := a.core.sockets.byID(c.sid)
	c.drop()
	if err := settledSoon(t, sock); err != nil {
		t.Fatal(err)
	}
	saved := time.Now()
	eventually(t, "the recovery time passes", func() bool { return time.Since(saved) > 20*time.Millisecond })
	fresh(t, c.again(b.server.URL, aliceToken), c)
}

func settledSoon(t *testing.T, s *socket) error {
	t.Helper()
	eventually(t, "the loss is noticed", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.save.settled != nil
	})
	return s.settled(t.Context())
}

// Recovery authorises each room again, and shows a deleted one as what it is.
func TestRecoveryOnAnotherNodeAuthorises(t *testing.T) {
	a, b := twoNodes(t, nil)
	script := a.script("in kept", "in work", "hello")
	script["hello"] <- "answer"
	close(script["hello"])
	c, witness := a.client(aliceToken), b.client(rootToken)
	for room, profile := range map[string]string{"kept": "default", "work": "work"} {
		witness.resume(room)
		c.run(room, "q-"+room, "in "+room, "profile", profile)
		script.stream(c, "in "+room, "1")
		witness.next("message.delta")
	}
	c.run("deleted", "q-deleted", "hello")
	c.next("run.completed")
	a.saved(c)
	c.drop()
	if err := b.core.Sessions().DeleteSession(t.Context(), b.core.sockets.byID(witness.sid).Principal(), "deleted"); err != nil {
		t.Fatal(err)
	}
	less := b.settings
	less.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default"), auth.TokenRule{User: "root", Token: rootToken, Grant: auth.Grant{Admin: true}})}}
	b.attach(less)
	script.stream(witness, "in work", "secret")
	script.stream(witness, "in kept", "missed")
	n := c.again(b.server.URL, aliceToken)
	var got []string
	for range 2 {
		r, err := n.take()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, texts([]received{r}))
	}
	all := strings.Join(got, " ")
	if !strings.Contains(all, "kept:missed") || !strings.Contains(all, "deleted!resumed") {
		t.Errorf("got %s", all)
	}
	script.stream(witness, "in work", "secret")
	n.quiet()
	for _, room := range []string{"kept", "work"} {
		script.finish(witness, "in "+room)
	}
}

// unmarked is texts without the rooms that markers left behind.
func unmarked(events []received) string {
	return texts(slices.DeleteFunc(events, func(r received) bool { return strings.HasPrefix(r.text("session_id"), "marker-") }))
}

// AC-82, AC-83: a place that cannot be proven is continued by one snapshot and
// nothing before it; what comes after it comes once.
func TestPlacesThatCannotBeProvenAC82(t *testing.T) {
	a, b := twoNodes(t, nil)
	script := a.script("hello")
	c, witness := a.client(aliceToken), b.client(aliceToken)
	witness.resume("s1")
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1", "2")
	for range 2 {
		witness.next("message.delta")
	}
	a.saved(c)
	prefix := pidPrefix(c.pid)
	n := c
	for name, offset := range map[string]string{
		"ahead":                  prefix + ".0:999:abc0",
		"of another incarnation": prefix + ".0:3:abc0",
		"volatile":               prefix + ".-",
	} {
		n.offset = offset
		next := n.again(b.server.URL, aliceToken)
		next.markers = n.markers
		n.awaitClose()
		n = next
		if n.sid != c.sid {
			t.Errorf("%s: not the same socket", name)
		}
		if got := unmarked(n.untilMarker()); got != "s1!resumed" {
			t.Errorf("%s: got %s, want one snapshot", name, got)
		}
	}
	script.stream(n, "hello", "3")
	witness.next("message.delta")
	script.finish(witness, "hello")
	if got := unmarked(n.until("run.completed")); got != "s1!run.completed" {
		t.Errorf("the end: %s", got)
	}
}

// AC-83, H26: the log has lost its beginning. One snapshot, no tail.
func TestTrimmedLogAC83(t *testing.T) {
	r := redisserver.Start(t)
	a := start(t, sharing(r))
	b := a.startNode(nil)
	c := a.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
	c.run("s1", "q2", "hello again")
	c.next("run.completed")
	a.saved(c)
	c.drop()
	witness := b.client(aliceToken)
	witness.run("s1", "q3", "once more")
	witness.next("run.completed")
	r.Do("DEL", "hermes:e{s:s1}")
	n := c.again(b.server.URL, aliceToken)
	if got := unmarked(n.untilMarker()); got != "s1!resumed" {
		t.Errorf("got %s", got)
	}
}

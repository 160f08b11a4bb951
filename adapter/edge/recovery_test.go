package edge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// scripted lets the test say what each turn streams: one channel a message text.
type scripted map[string]chan string

func (s scripted) run(t *fakegateway.Turn) {
	t.Created()
	for {
		select {
		case delta, more := <-s[t.Input]:
			if !more {
				t.Complete(fakegateway.Usage{Input: 1, Output: 1})
				return
			}
			t.Delta(delta)
		case <-t.Request.Context().Done():
			return
		}
	}
}

// script makes the gateway follow the channels of these messages.
func (e *env) script(inputs ...string) scripted {
	s := scripted{}
	for _, in := range inputs {
		s[in] = make(chan string, 1000)
	}
	e.gw.SetScript(s.run)
	return s
}

// stream sends deltas one by one and waits until c has each: they are not merged
// then.
func (s scripted) stream(c *client, input string, deltas ...string) {
	c.t.Helper()
	for _, d := range deltas {
		s[input] <- d
		if got := c.next("message.delta"); got.text("delta") != d {
			c.t.Fatalf("delta %q, want %q", got.text("delta"), d)
		}
	}
}

// finish ends a turn and waits until a witness has seen it.
func (s scripted) finish(witness *client, input string) {
	close(s[input])
	witness.next("run.completed")
}

func texts(events []received) string {
	var all []string
	for _, r := range events {
		switch r.name {
		case "message.delta":
			all = append(all, r.text("session_id")+":"+r.text("delta"))
		case "usage.updated":
		default:
			all = append(all, r.text("session_id")+"!"+r.name)
		}
	}
	return strings.Join(all, " ")
}

// What a client missed comes exactly once and in order, under the same id, with
// and without a base that a pong has confirmed.
func TestRecoverySendsWhatWasMissed(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprint("confirmed ", confirmed), func(t *testing.T) {
			e := start(t, func(s *Settings) {
				if confirmed {
					s.Timeouts.PingInterval = 10 * time.Millisecond
				}
			})
			script := e.script("hello")
			c, witness := e.client(aliceToken), e.client(aliceToken)
			witness.resume("s1")
			c.run("s1", "q1", "hello")
			script.stream(c, "hello", "1", "2")
			if confirmed {
				c.confirmed()
			}
			script.stream(c, "hello", "3")
			script.stream(witness, "hello")
			c.drop()
			for range 3 {
				witness.next("message.delta")
			}
			script.stream(witness, "hello", "4", "5")

			n := c.again(e.server.URL, aliceToken)
			if n.sid != c.sid || n.pid != c.pid {
				t.Errorf("ids %s %s, want %s %s", n.sid, n.pid, c.sid, c.pid)
			}
			for _, want := range []string{"4", "5"} {
				if r, err := n.take(); err != nil || r.text("delta") != want {
					t.Errorf("got %v %v, want delta %s", r, err, want)
				}
			}
			script.stream(n, "hello", "6")
			script.finish(witness, "hello")
			if got, want := texts(n.until("run.completed")), "s1!run.completed"; got != want {
				t.Errorf("the end: %s, want %s", got, want)
			}
		})
	}
}

// RES-01: a run that ended during the absence is not missed either.
func TestRecoveryAfterTheEndRES01(t *testing.T) {
	e := start(t, nil)
	script := e.script("hello")
	c, witness := e.client(aliceToken), e.client(aliceToken)
	witness.resume("s1")
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	c.drop()
	witness.next("message.delta")
	script.stream(witness, "hello", "2")
	script.finish(witness, "hello")
	n := c.again(e.server.URL, aliceToken)
	if got, want := texts(n.until("run.completed")), "s1:2 s1!run.completed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// H27: the one token of the last packet tells the places in all rooms.
func TestRecoveryOfTwoRoomsH27(t *testing.T) {
	e := start(t, func(s *Settings) { s.Timeouts.PingInterval = 10 * time.Millisecond })
	script := e.script("in a", "in b", "in c")
	c, witness := e.client(aliceToken), e.client(aliceToken)
	for _, room := range []string{"a", "b", "c"} {
		witness.resume(room)
		c.run(room, "q-"+room, "in "+room)
		script.stream(c, "in "+room, "1")
		witness.next("message.delta")
	}
	c.confirmed() // a and c stand where the pong found them; b moves on
	script.stream(c, "in b", "2")
	witness.next("message.delta")
	script.stream(c, "in a", "2")
	witness.next("message.delta")
	c.drop()
	for _, room := range []string{"c", "b", "a"} {
		script.stream(witness, "in "+room, "missed")
	}
	n := c.again(e.server.URL, aliceToken)
	var got []received
	for range 3 {
		got = append(got, n.next("message.delta"))
	}
	if got, want := texts(got), "a:missed b:missed c:missed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	n.quiet()
	for _, room := range []string{"a", "b", "c"} {
		script.finish(witness, "in "+room)
	}
}

// fresh asserts that a connection continues nothing.
func fresh(t *testing.T, c, old *client) {
	t.Helper()
	if c.sid == old.sid || c.pid == old.pid || c.pid == "" {
		t.Errorf("ids %s %s after %s %s", c.sid, c.pid, old.sid, old.pid)
	}
	c.quiet()
}

func TestRecoveryIsRefused(t *testing.T) {
	e := start(t, nil)
	script := e.script("hello")
	c, witness := e.client(aliceToken), e.client(aliceToken)
	witness.resume("s1")
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	witness.next("message.delta")
	connect := func(token, pid, offset string) *client {
		n := dial(t, e.server.URL, "")
		if refused := n.connect(map[string]any{"token": token, "pid": pid, "offset": offset}); refused != "" {
			t.Fatal(refused)
		}
		return n
	}
	t.Run("another user", func(t *testing.T) {
		fresh(t, connect(bobToken, c.pid, c.offset), c)
		c.quiet() // and does not disturb the one who holds it
	})
	t.Run("no offset", func(t *testing.T) { fresh(t, connect(aliceToken, c.pid, ""), c) })
	t.Run("H28 offset of an earlier pid", func(t *testing.T) {
		second := connect(aliceToken, "", "")
		fresh(t, connect(aliceToken, second.pid, c.offset), second)
	})
	t.Run("unknown pid", func(t *testing.T) {
		pid := randomName(16)
		fresh(t, connect(aliceToken, pid, pidPrefix(pid)+".0:1:abc0"), c)
	})
	t.Run("malformed offset", func(t *testing.T) { fresh(t, connect(aliceToken, c.pid, pidPrefix(c.pid)+".x:y"), c) })
	t.Run("CR-9 authentication comes first", func(t *testing.T) {
		n := dial(t, e.server.URL, "")
		if refused := n.connect(map[string]any{"token": "wrong", "pid": c.pid, "offset": c.offset}); refused == "" {
			t.Error("admitted by pid alone")
		}
		c.quiet()
	})
	script.finish(witness, "hello")
}

func TestExpiredRecord(t *testing.T) {
	e := start(t, func(s *Settings) { s.Timeouts.Recovery = time.Millisecond })
	script := e.script("hello")
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	sock := e.core.sockets.all()[0]
	c.drop()
	eventually(t, "the loss is noticed", func() bool { return e.core.sockets.count() == 0 })
	if err := sock.settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved := time.Now()
	eventually(t, "the recovery time passes", func() bool { return time.Since(saved) > 20*time.Millisecond })
	fresh(t, c.again(e.server.URL, aliceToken), c)
	close(script["hello"])
}

// A client that leaves by itself cannot come back as the same.
func TestOwnDisconnectDropsTheRecord(t *testing.T) {
	e := start(t, nil)
	script := e.script("hello")
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	sock := e.core.sockets.all()[0]
	c.write("41/chat-run,")
	eventually(t, "the socket leaves", func() bool { return e.core.sockets.count() == 0 })
	if err := sock.settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh(t, c.again(e.server.URL, aliceToken), c)
	close(script["hello"])
}

// H29: the connection that is still half open loses its place, and whatever is
// said on it afterwards counts for nothing.
func TestHalfOpenHolderH29(t *testing.T) {
	e := start(t, nil)
	script := e.script("hello", "second")
	script["second"] <- "answer"
	close(script["second"])
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	script.stream(c, "hello", "1")
	n := c.again(e.server.URL, aliceToken)
	c.awaitClose()
	if n.sid != c.sid {
		t.Errorf("sid %s, want %s", n.sid, c.sid)
	}
	script.stream(n, "hello", "2")
	// Events of the client are taken as those of the same socket.
	n.run("s1", "q2", "second")
	queued := n.next("run.queued")
	if queued.payload["queue_length"] != float64(1) {
		t.Errorf("run.queued %v", queued.payload)
	}
	close(script["hello"])
	n.next("run.completed")
	n.next("run.completed")
	if got := e.core.sockets.count(); got != 1 {
		t.Errorf("%d sockets", got)
	}
}

// Recovery authorises each room again: what he may not open any more is dropped
// without a word, the rest goes on.
func TestRecoveryAuthorises(t *testing.T) {
	e := start(t, nil)
	script := e.script("in default", "in work")
	c, witness := e.client(aliceToken), e.client(rootToken)
	for _, profile := range []string{"default", "work"} {
		witness.resume("r-" + profile)
		c.run("r-"+profile, "q-"+profile, "in "+profile, "profile", profile)
		script.stream(c, "in "+profile, "1")
		witness.next("message.delta")
	}
	c.drop()
	less := e.settings
	root := auth.TokenRule{User: "root", Token: rootToken, Grant: auth.Grant{Admin: true}}
	less.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default"), root)}}
	e.attach(less)
	for _, profile := range []string{"work", "default"} {
		script.stream(witness, "in "+profile, "missed")
	}
	n := c.again(e.server.URL, aliceToken)
	if got := texts([]received{n.next("message.delta")}); got != "r-default:missed" {
		t.Errorf("got %s", got)
	}
	script.stream(witness, "in work", "secret")
	n.quiet()
	for _, profile := range []string{"work", "default"} {
		script.finish(witness, "in "+profile)
	}
}

// A session that was deleted meanwhile is shown as what it is, after the ending
// that the client was owed.
func TestRecoveryOfDeletedSession(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
	sock := e.core.sockets.all()[0]
	c.drop()
	eventually(t, "the loss is noticed", func() bool { return e.core.sockets.count() == 0 })
	if err := e.core.Sessions().DeleteSession(t.Context(), sock.Principal(), "s1"); err != nil {
		t.Fatal(err)
	}
	n := c.again(e.server.URL, aliceToken)
	r, err := n.take()
	if err != nil || r.name != "resumed" || len(r.payload["messages"].([]any)) != 0 {
		t.Errorf("got %v %v", r, err)
	}
}

func TestRecoveryOff(t *testing.T) {
	e := start(t, func(s *Settings) { s.Timeouts.Recovery = 0 })
	c := e.client(aliceToken)
	if c.pid != "" {
		t.Errorf("pid %s", c.pid)
	}
	if r := c.resume("s1"); r.offset != "" {
		t.Errorf("offset %q", r.offset)
	}
}

// RES-02: a client that loses its connection again and again during a fast answer
// ends with exactly the text.
func TestManyRecoveriesRES02(t *testing.T) {
	e := start(t, func(s *Settings) { s.Timeouts.PingInterval = 5 * time.Millisecond })
	const deltas = 400
	e.gw.SetScript(func(t *fakegateway.Turn) {
		for i := range deltas {
			t.Delta(fmt.Sprintf("%d ", i))
			if !t.Wait(time.Millisecond) {
				return
			}
		}
		t.Complete(fakegateway.Usage{Input: 1, Output: 1})
	})
	var want strings.Builder
	for i := range deltas {
		fmt.Fprintf(&want, "%d ", i)
	}
	c := e.client(aliceToken)
	c.run("s1", "q1", "go")
	var got strings.Builder
	ended := false
	for n := 1; !ended; n++ {
		r, err := c.take()
		if errors.Is(err, errClosed) { // all that had arrived before the loss
			old := c
			if c = old.again(e.server.URL, aliceToken); c.sid != old.sid {
				t.Fatal("not recovered")
			}
			continue
		}
		if err != nil || r.name == "resumed" {
			t.Fatalf("the place was lost after %d events: %v %v", n, r, err)
		}
		ended = r.name == "run.completed"
		got.WriteString(r.text("delta"))
		if n%25 == 0 {
			c.drop()
		}
	}
	if got.String() != want.String() {
		t.Errorf("text differs:\n%s", got.String())
	}
}

package edge

import "testing"

// D-03, AUT-01, CR-62, CR-95: another user's session answers every event as one
// that does not exist does, and its owner notices nothing.
func TestForeignSessionD03(t *testing.T) {
	e := start(t, nil)
	owner, stranger := e.client(aliceToken), e.client(bobToken)
	for _, s := range []struct{ sid, profile string }{{"alice-default", "default"}, {"alice-work", "work"}} {
		owner.run(s.sid, "q-"+s.sid, "[[hold]]", "profile", s.profile)
		owner.next("message.delta")
	}
	e.holding(2)

	for _, sid := range []string{"alice-default", "alice-work"} {
		t.Run(sid, func(t *testing.T) {
			if r := stranger.resume(sid); r.payload["isWorking"] != false || len(r.payload["messages"].([]any)) != 0 {
				t.Errorf("resumed %v", r.payload)
			}
			stranger.emit("abort", `{"session_id":"`+sid+`"}`)
			stranger.emit("cancel_queued_run", `{"session_id":"`+sid+`","queue_id":"q-`+sid+`"}`)
			stranger.emit("approval.respond", `{"session_id":"`+sid+`","approval_id":"a","choice":"once"}`)
			stranger.emit("clarify.respond", `{"session_id":"`+sid+`","clarify_id":"c","answer":"x"}`)
			stranger.run(sid, "q-stranger", "intruder")
			for _, r := range stranger.untilMarker() {
				if r.name != "run.failed" && r.payload["ignored"] != true {
					t.Errorf("the stranger got %s %v", r.name, r.payload)
				}
			}
		})
	}
	owner.quiet()
	e.gw.Release()
	for range 2 {
		owner.next("run.completed")
	}
	stranger.quiet()
	if n := len(e.gw.Turns()); n != 2 {
		t.Errorf("%d turns reached the gateway, want 2", n)
	}
}

// D-04, AUT-07: the profile of handshake and message, and where the session is
// stored. A run happens only where the user may use the resulting profile.
func TestProfileMatrixD04(t *testing.T) {
	e := start(t, nil)
	prepare := e.client(rootToken)
	for _, profile := range []string{"default", "work"} {
		prepare.run("root-"+profile, "q-root-"+profile, "first", "profile", profile)
		prepare.next("run.completed")
	}
	tests := []struct {
		name, handshake, sid, profile string
		ok                            bool
	}{
		{"own, none, new", "default", "m1", "", true},
		{"own, own, new", "default", "m2", "default", true},
		{"none, none, new", "", "m3", "", true},
		{"none, own, new", "", "m4", "default", true},
		{"own, foreign, new", "default", "m5", "work", false},
		{"own, unknown, new", "default", "m6", "nowhere", false},
		{"own, capitals, new", "default", "m7", "Default", false},
		{"own, none, foreign user", "default", "root-default", "", false},
		{"own, own, foreign profile", "default", "root-work", "default", false},
		{"own, foreign, foreign profile", "default", "root-work", "work", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(e.gw.Turns())
			c := dial(t, e.server.URL, query(tt.handshake))
			if refused := c.connect(map[string]any{"token": bobToken}); refused != "" {
				t.Fatal(refused)
			}
			more := []string{}
			if tt.profile != "" {
				more = []string{"profile", tt.profile}
			}
			c.run(tt.sid, "q-"+tt.sid, "hello", more...)
			if tt.ok {
				c.next("run.completed")
				return
			}
			if r, err := c.take(); err != nil || r.name != "run.failed" || r.text("error") == "" {
				t.Errorf("answer %v, %v", r, err)
			}
			c.quiet()
			if after := len(e.gw.Turns()); after != before {
				t.Errorf("%d turns reached the gateway", after-before)
			}
		})
	}
}

// A session of his own in a profile that he may no longer use is closed to him.
func TestStoredProfileTakenAway(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("w1", "q1", "hello", "profile", "work")
	c.next("run.completed")
	less := e.settings
	less.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default"))}}
	e.attach(less)
	eventually(t, "the new rights", func() bool { return !e.core.sockets.all()[0].Principal().MayUse("work") })
	if r := c.resume("w1"); len(r.payload["messages"].([]any)) != 0 {
		t.Errorf("resumed %v", r.payload)
	}
	c.run("w1", "q2", "again")
	c.next("run.failed")
}

// Sessions of a shared mount are open to whoever may use their profile.
func TestSharedMount(t *testing.T) {
	e := start(t, func(s *Settings) { s.Mounts[0].Shared = true })
	alice, bob := e.client(aliceToken), e.client(bobToken)
	alice.run("shared", "q1", "hello")
	alice.next("run.completed")
	alice.run("private-profile", "q2", "hello", "profile", "work")
	alice.next("run.completed")
	if r := bob.resume("shared"); len(r.payload["messages"].([]any)) != 2 {
		t.Errorf("resumed %v", r.payload)
	}
	if r := bob.resume("private-profile"); len(r.payload["messages"].([]any)) != 0 {
		t.Errorf("a profile that he may not use: %v", r.payload)
	}
}

// RES-04: every event names its session, and sessions are not mixed up.
func TestTwoSessionsOnOneSocketRES04(t *testing.T) {
	e := start(t, nil)
	c, one := e.client(aliceToken), e.client(aliceToken)
	one.resume("two-a")
	for _, name := range []string{"a", "b"} {
		c.run("two-"+name, "q-"+name, "[[slow 20 1ms]]")
	}
	ended := 0
	for ended < 2 {
		r, err := c.take()
		if err != nil {
			t.Fatal(err)
		}
		if sid := r.text("session_id"); sid != "two-a" && sid != "two-b" {
			t.Errorf("%s without its session: %v", r.name, r.payload)
		}
		if r.name == "run.completed" {
			ended++
		}
	}
	for _, r := range one.until("run.completed") {
		if r.text("session_id") != "two-a" {
			t.Errorf("watcher of two-a got %s %v", r.name, r.payload)
		}
	}
	one.quiet()
}

package edge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/store/embedded"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// R2: settings are a stack; the newest still attached are current.
func TestAttachmentStackR2(t *testing.T) {
	e := start(t, nil)
	profiles := func() int { return len(e.core.profiles()) }
	with := func(n int) Settings {
		s := e.settings
		s.Gateways = map[string]gateway.Config{}
		for _, p := range []string{"default", "work", "third", "fourth"}[:n] {
			s.Gateways[p] = gateway.Config{BaseURL: e.gw.URL}
		}
		return s
	}
	three := e.attach(with(3))
	four := e.attach(with(4))
	check := func(what string, want int) {
		t.Helper()
		if got := profiles(); got != want {
			t.Errorf("%s: %d profiles, want %d", what, got, want)
		}
	}
	check("four attached", 4)
	three.Detach()
	check("one below the newest detached", 4)
	four.Detach()
	four.Detach()
	check("the newest detached, twice", 2)
	e.attached.Detach()
	check("the last settings stay in force", 2)
	e.attach(with(1))
	check("attached again", 1)
}

// R3, R2: settings that cannot be used change nothing.
func TestFailedAttachChangesNothing(t *testing.T) {
	e := start(t, nil)
	bad := e.settings
	bad.Gateways = map[string]gateway.Config{"default": {BaseURL: "ftp://x"}}
	if _, err := e.core.Attach(t.Context(), bad); err == nil {
		t.Fatal("attached")
	}
	if got := len(e.core.profiles()); got != 2 {
		t.Errorf("%d profiles", got)
	}
	c := e.client(aliceToken)
	c.run("s1", "q1", "hello")
	c.next("run.completed")
}

// R3: a data file that is locked by another process is an error of the start.
func TestLockedDataFileR3(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	settings := newSettings(t, gw)
	other, err := embedded.Open(embedded.Options{Path: DataFile(settings.DataDir)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c := NewCore(CoreKey(DataFile(settings.DataDir)), Deps{Logger: zaptest.NewLogger(t)})
	defer drain(t, c)
	if _, err := c.Attach(t.Context(), settings); !errors.Is(err, embedded.ErrLocked) {
		t.Errorf("error %v", err)
	}
	if c.gen.Load() != nil || len(c.stack) != 0 {
		t.Error("the settings of the failed start are current")
	}
}

// R3: other troubles of the data directory leave the server not ready, and it
// recovers by itself.
func TestStoreTroubleIsRetriedR3(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	settings := newSettings(t, gw)
	blocked := filepath.Join(settings.DataDir, "data")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil { // a file where a directory has to be
		t.Fatal(err)
	}
	settings.DataDir = blocked
	e := &env{t: t, gw: gw, settings: settings}
	e.serve(NewCore(CoreKey(DataFile(blocked)), Deps{Logger: zaptest.NewLogger(t)}))
	e.attach(settings)
	if got := e.core.Status(); got != "starting" {
		t.Errorf("status %q", got)
	}
	health := e.core.Health(t.Context())
	if store := health["store"].(map[string]any); store["open"] != false || store["error"] == nil {
		t.Errorf("health %v", store)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store is opened", func() bool { return e.core.Status() == "ok" })
	e.client(aliceToken)
}

// R5: what open connections and running messages notice of other settings.
func TestReloadR5(t *testing.T) {
	e := start(t, nil)
	alice, bob := e.client(aliceToken), e.client(bobToken)
	alice.run("s1", "q1", "[[hold]]", "profile", "work")
	alice.next("message.delta")
	e.holding(1)
	alice.run("s1", "q2", "queued", "profile", "work")
	alice.next("run.queued")
	second := fakegateway.Start(t, fakegateway.Options{})

	next := e.settings // bob's rule has gone, the gateway of work too
	next.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default", "work"))}}
	next.Gateways = map[string]gateway.Config{"default": {BaseURL: second.URL}}
	e.attach(next)
	e.attached.Detach()
	bob.awaitClose()
	alice.quiet()

	alice.run("s2", "q3", "hello", "profile", "default")
	alice.next("run.completed")
	if len(second.Turns()) != 1 {
		t.Error("the next run did not go to the new gateway")
	}
	e.gw.Release()
	if r := alice.next("run.completed"); r.text("session_id") != "s1" {
		t.Errorf("active run: %v", r.payload)
	}
	failed := alice.next("run.failed")
	if failed.text("session_id") != "s1" {
		t.Errorf("queued run of the removed profile: %v", failed.payload)
	}
	if r := alice.resume("s1"); len(r.payload["messages"].([]any)) < 3 || r.payload["isWorking"] != false {
		t.Errorf("history of the removed profile: %v", r.payload)
	}
}

// R5, R6: an equal configuration, made anew, changes nothing for anybody.
func TestEqualReloadR6(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	before := e.core.gen.Load()
	same := e.settings
	root := auth.TokenRule{User: "root", Token: rootToken, Grant: auth.Grant{Admin: true}}
	same.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default", "work"), bobRule("default"), root)}}
	e.attach(same)
	e.attached.Detach()
	after := e.core.gen.Load()
	if before.upstreams["default"] != after.upstreams["default"] {
		t.Error("the gateway client was made anew")
	}
	c.quiet()
	c.run("s1", "q1", "hello")
	c.next("run.completed")
}

// R5: rights that change replace the principal, and rooms are left.
func TestRightsChangeR5(t *testing.T) {
	e := start(t, nil)
	script := e.script("in default", "in work")
	c, witness := e.client(aliceToken), e.client(rootToken)
	for _, profile := range []string{"default", "work"} {
		witness.resume("r-" + profile)
		c.run("r-"+profile, "q-"+profile, "in "+profile, "profile", profile)
		script.stream(c, "in "+profile, "1")
		witness.next("message.delta")
	}
	less := e.settings
	root := auth.TokenRule{User: "root", Token: rootToken, Grant: auth.Grant{Admin: true}}
	less.Mounts = []*Mount{{Auth: tokens(t, aliceRule("default"), root)}}
	e.attach(less)
	eventually(t, "the room is left", func() bool {
		for _, s := range e.core.sockets.all() {
			if s.user == "alice" {
				return len(e.core.engine().Rooms(s)) == 1
			}
		}
		return false
	})
	script.stream(witness, "in work", "secret")
	c.quiet()
	script.stream(c, "in default", "2")
	for _, profile := range []string{"default", "work"} {
		script.finish(witness, "in "+profile)
	}
}

// R5: a replaced client is kept for the runs that began on it and then closed.
func TestReplacedClientIsClosedWhenIdle(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q1", "[[hold]]")
	c.next("message.delta")
	next := e.settings
	next.Gateways = map[string]gateway.Config{"default": {BaseURL: e.gw.URL, ReadTimeout: time.Minute}}
	e.attach(next)
	e.attached.Detach()
	live := func() int {
		e.core.pool.mu.Lock()
		defer e.core.pool.mu.Unlock()
		return len(e.core.pool.live)
	}
	if got := live(); got != 2 {
		t.Errorf("%d clients, want the old one and the new one", got)
	}
	e.holding(1)
	e.gw.Release()
	c.next("run.completed")
	eventually(t, "the old client is closed", func() bool { return live() == 1 })
}

// R4: a successor with the same data file hurries the core before it.
func TestSuccessorGetsTheFileR4(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q1", "[[hold]]")
	c.next("message.delta")
	e.holding(1)
	e.attached.Detach()
	draining := make(chan struct{})
	go func() {
		defer close(draining)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		e.core.Drain(ctx)
	}()
	eventually(t, "the drain begins", e.core.exit.begun)

	next := &env{t: t, gw: e.gw, settings: e.settings}
	next.serve(NewCore(e.core.Key(), Deps{Logger: zaptest.NewLogger(t)}))
	next.attach(e.settings)
	<-draining
	if r := c.next("run.failed"); r.text("session_id") != "s1" {
		t.Errorf("run.failed %v", r.payload)
	}
	c.awaitClose()
	if r := next.client(aliceToken).resume("s1"); len(r.payload["messages"].([]any)) != 2 || r.payload["isWorking"] != false {
		t.Errorf("resumed %v", r.payload)
	}
	if _, err := e.core.Attach(t.Context(), e.settings); !errors.Is(err, ErrDraining) {
		t.Errorf("attach to the old core: %v", err)
	}
}

package lifecycle

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

const (
	aliceRule = "token alice " + aliceToken
	bobRule   = "token bob " + bobToken
	authBlock = "auth {\n" + aliceRule + "\n" + bobRule + "\n}"
)

// site is a configuration with one gateway and one site.
func site(gateway, key, directives, global string) string {
	block := ""
	if key != "" {
		block = " {\n api_key " + key + "\n }"
	}
	return fmt.Sprintf("{\n admin localhost:{ADMIN}\n %s\n hermes {\n data_dir {DATA}\n gateway %s%s\n }\n}\nhttp://127.0.0.1:{PORT} {\n bind 127.0.0.1\n %s\n}\n",
		global, gateway, block, directives)
}

func users(rules ...string) string {
	return "hermes_edge {\n auth {\n" + strings.Join(rules, "\n") + "\n }\n}"
}

func awaitHeld(t *testing.T, gateway *fakegateway.Server, turns int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := gateway.WaitFor(ctx, func(s fakegateway.State) bool { return s.Held >= turns }); err != nil {
		t.Fatal(err)
	}
}

// completed fails unless the run ends well, and returns its text.
func completed(t *testing.T, c *chat.Client) string {
	t.Helper()
	events := c.Until("run.completed", "run.failed")
	if last := events[len(events)-1]; last.Name != "run.completed" {
		t.Fatalf("the run failed: %v", last.Payload)
	}
	return chat.TextOf(events)
}

// CAD-01, R6: reloads with an equal configuration, with a changed option of ours,
// or with a change that has nothing to do with us, keep connections, runs and
// queues.
func TestReloadKeepsConnectionsAndRuns(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	config := site(gateway.URL, "", "hermes_edge {\n"+authBlock+"\n}", "")
	s.start(config)
	clients := make([]*chat.Client, 20)
	for i := range clients {
		clients[i] = chat.Dial(t, s.url(), aliceToken)
	}
	const running, queued = 5, 3
	for i, c := range clients[:running] {
		c.Run(fmt.Sprint("s", i), "q0", "[[hold]]")
		for q := range queued {
			c.Run(fmt.Sprint("s", i), fmt.Sprint("q", q+1), fmt.Sprint("message ", q+1))
		}
	}
	awaitHeld(t, gateway, running)
	s.mustReload(config)
	s.mustReload(strings.Replace(config, "data_dir", "limits {\n event_rate 70/s\n }\n data_dir", 1))
	s.mustReload(config + "\nhttp://127.0.0.1:" + fmt.Sprint(freePort(t)) + " {\n bind 127.0.0.1\n respond unrelated\n}\n")
	gateway.Release()
	for _, c := range clients[:running] {
		completed(t, c)
		for q := range queued {
			if text, want := completed(t, c), fmt.Sprint("message ", q+1); !strings.Contains(text, want) {
				t.Errorf("%q was answered with %q", want, text)
			}
		}
	}
	for i, c := range clients[running:] {
		c.Run(fmt.Sprint("idle", i), "q1", "hello")
		completed(t, c)
	}
	s.terminate()
}

// R7: a poll that is held over a reload is answered as before.
func TestReloadKeepsHeldPoll(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	config := site("http://127.0.0.1:1", "", "hermes_edge {\n"+authBlock+"\n}", "")
	s.start(config)
	session, held := openPoll(t, s)
	s.mustReload(config)
	resp, err := httpClient.Post(session, "text/plain", strings.NewReader(`40/chat-run,{"token":"`+aliceToken+`"}`))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("post: %v %v", resp, err)
	}
	resp.Body.Close()
	if answer := <-held; !strings.Contains(answer, "0/chat-run,") {
		t.Errorf("the held poll was answered with %q", answer)
	}
	s.terminate()
}

// openPoll opens a polling connection and returns its address, and the answer to a
// poll that is held.
func openPoll(t *testing.T, s *server) (session string, held <-chan string) {
	t.Helper()
	status, open := s.get("/socket.io/?EIO=4&transport=polling")
	_, rest, found := strings.Cut(open, `"sid":"`)
	sid, _, _ := strings.Cut(rest, `"`)
	if status != http.StatusOK || !found {
		t.Fatalf("open: %d %q", status, open)
	}
	path := "/socket.io/?EIO=4&transport=polling&sid=" + sid
	answer := make(chan string, 1)
	go func() {
		_, body := s.get(path)
		answer <- body
	}()
	return s.url() + path, answer
}

func TestChangedKeyAppliesToTheNextRun(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{Key: "first-key"})
	s := newServer(t)
	directive := users(aliceRule)
	s.start(site(gateway.URL, "first-key", directive, ""))
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "one")
	completed(t, c)
	gateway.SetKey("second-key")
	s.mustReload(site(gateway.URL, "second-key", directive, ""))
	c.Run("s1", "q2", "two")
	completed(t, c)
	s.terminate()
}

// R5: who was admitted by a rule that is gone is sent away, the others stay.
func TestRemovedTokenClosesItsSocket(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	s.start(site(gateway.URL, "", users(aliceRule, bobRule), ""))
	alice, bob := chat.Dial(t, s.url(), aliceToken), chat.Dial(t, s.url(), bobToken)
	s.mustReload(site(gateway.URL, "", users(bobRule), ""))
	alice.Closed()
	bob.Run("s2", "q1", "still here")
	completed(t, bob)
	s.terminate()
}

// R2: a reload that fails on a busy port leaves the old settings in force, also
// where our app was started before the failure.
func TestFailedReloadChangesNothing(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	gateway := fakegateway.Start(t, fakegateway.Options{Key: "right-key"})
	s := newServer(t)
	directive := users(aliceRule)
	s.start(site(gateway.URL, "right-key", directive, ""))
	c := chat.Dial(t, s.url(), aliceToken)
	for i := range 4 { // apps start in random order
		broken := site(gateway.URL, "wrong-key", directive, "") + "http://" + busy.Addr().String() + " {\n bind 127.0.0.1\n respond x\n}\n"
		if err := s.reload(broken); err == nil {
			t.Fatal("the reload succeeded on a busy port")
		}
		c.Run("s1", fmt.Sprint("q", i), "hello")
		completed(t, c)
	}
	s.terminate()
}

// R5, CR-16: the gateway of a profile is taken away: its next run fails and names
// the profile, its history stays readable, and other profiles do not notice.
func TestRemovedGatewayFailsItsRuns(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	config := site(gateway.URL, "", users(aliceRule+" {\n profiles default work\n }"), "")
	s.start(strings.Replace(config, "data_dir", "gateway work "+gateway.URL+"\n data_dir", 1))
	c := chat.Dial(t, s.url(), aliceToken)
	work := func(queueID string) {
		c.Emit("run", map[string]any{"session_id": "w1", "queue_id": queueID, "input": "hello", "profile": "work"})
	}
	work("q1")
	completed(t, c)
	s.mustReload(config)
	work("q2")
	events := c.Until("run.completed", "run.failed")
	if last := events[len(events)-1]; last.Name != "run.failed" || !strings.Contains(last.Text("error"), `Profile "work"`) {
		t.Errorf("got %s %v", last.Name, last.Payload)
	}
	if rows := chat.Rows(c.Resume("w1")); len(rows) < 2 || rows[0] != "user: hello" {
		t.Errorf("history: %v", rows)
	}
	c.Run("s1", "q1", "hello")
	completed(t, c)
	s.terminate()
}

// R5: another data_dir is another core; the old one sends its clients away.
func TestChangedDataDirMovesClients(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	config := site(gateway.URL, "", users(aliceRule), "")
	s.start(config)
	c := chat.Dial(t, s.url(), aliceToken)
	s.mustReload(strings.ReplaceAll(config, "{DATA}", t.TempDir()))
	c.Closed()
	again := chat.Dial(t, s.url(), aliceToken)
	again.Run("s1", "q1", "hello")
	completed(t, again)
	// And back, while the first core may still hold its file.
	s.mustReload(config)
	again.Closed()
	back := chat.Dial(t, s.url(), aliceToken)
	back.Run("s2", "q1", "hello")
	completed(t, back)
	s.terminate()
}

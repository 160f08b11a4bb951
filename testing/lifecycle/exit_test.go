package lifecycle

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// R8, R9: SIGTERM with an open socket, a held poll and a running run ends the
// process, also with no grace period; what the run had said is kept.
func TestExitDrains(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	config := strings.Replace(site(gateway.URL, "", users(aliceRule, bobRule), ""),
		"data_dir", "timeouts {\n drain 2s\n}\n data_dir", 1)
	s.start(config)
	c, idle := chat.Dial(t, s.url(), aliceToken), chat.Dial(t, s.url(), bobToken)
	_, held := openPoll(t, s)
	c.Run("s1", "q1", "[[hold]]")
	awaitHeld(t, gateway, 1)
	c.Until("message.delta")
	s.terminate()
	if s.err != nil {
		t.Errorf("exit: %v", s.err)
	}
	<-held
	idle.Closed()

	gateway.Release()
	s.start(config)
	again := chat.Dial(t, s.url(), aliceToken)
	resumed := again.Resume("s1")
	rows := strings.Join(chat.Rows(resumed), "\n")
	if !strings.Contains(rows, "user: [[hold]]") || !strings.Contains(rows, "assistant: ") || resumed.Payload["isWorking"] == true {
		t.Errorf("after the restart:\n%s\n%v", rows, resumed.Payload["isWorking"])
	}
	s.terminate()
}

// A poll that was held by a configuration before the last one does not keep the
// process either.
func TestExitAfterReloadWithHeldPoll(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	config := site("http://127.0.0.1:1", "", users(aliceRule), "")
	s.start(config)
	_, held := openPoll(t, s)
	s.mustReload(config)
	s.mustReload(config)
	s.terminate()
	<-held
}

// Without us in the configuration the process ends as any Caddy does, also while
// the old core is still drained.
func TestExitWhileTheOldCoreDrains(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	s := newServer(t)
	config := site(gateway.URL, "", users(aliceRule), "")
	s.start(config)
	c := chat.Dial(t, s.url(), aliceToken)
	c.Run("s1", "q1", "[[hold]]")
	awaitHeld(t, gateway, 1)
	s.mustReload("{\n admin localhost:{ADMIN}\n}\nhttp://127.0.0.1:{PORT} {\n bind 127.0.0.1\n respond gone\n}\n")
	if status, body := s.get("/chat-run/health"); status != 200 || body != "gone" {
		t.Errorf("%d %q", status, body)
	}
	s.terminate()
}

func TestAdminDrain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.start(site("http://127.0.0.1:1", "", users(aliceRule), ""))
	if status, _ := s.adminDo(http.MethodGet, "/hermes/health/ready"); status != 200 {
		t.Errorf("ready: %d", status)
	}
	if status, body := s.adminDo(http.MethodGet, "/metrics"); status != 200 || !strings.Contains(body, "hermes_edge_") {
		t.Errorf("metrics: %d", status)
	}
	if status, _ := s.adminDo(http.MethodPost, "/hermes/drain"); status != 202 {
		t.Errorf("drain: %d", status)
	}
	if status, _ := s.get("/chat-run/health"); status != 503 {
		t.Errorf("health: %d", status)
	}
	if status, _ := s.get("/socket.io/?EIO=4&transport=polling"); status != 503 {
		t.Errorf("handshake: %d", status)
	}
	s.terminate()
}

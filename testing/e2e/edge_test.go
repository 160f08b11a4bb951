package e2e_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAMessageIsAnsweredThroughTheBinary(t *testing.T) {
	gateway := fakegateway.Start(t, fakegateway.Options{Key: "scripted-key"})
	edge := e2e.StartEdge(t, e2e.Config{
		Gateways: map[string]e2e.Upstream{"default": {URL: gateway.URL, Key: "scripted-key"}},
		Users:    []e2e.User{{Name: "alice", Token: "secret-of-alice-0123"}},
	})
	client := chat.Dial(t, edge.URL, "secret-of-alice-0123")
	client.Run("s1", "q1", "hello")
	if text := chat.TextOf(client.Until("run.completed")); text != "echo: hello" {
		t.Errorf("got %q", text)
	}
	if err := edge.Stop(); err != nil {
		t.Errorf("with an open connection: %v", err)
	}
	client.Closed()
}

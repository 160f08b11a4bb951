package edge

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

func sprint(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "no JSON: " + err.Error()
	}
	return string(b)
}

// Health holds no secret, no address and no path.
func TestHealth(t *testing.T) {
	e := start(t, func(s *Settings) {
		g := s.Gateways["default"]
		g.Key = gateway.StaticKey("secret-gateway-key", "api_key")
		s.Gateways["default"] = g
	})
	e.gw.SetKey("secret-gateway-key")
	e.client(aliceToken)
	health := e.core.Health(t.Context())
	text := sprint(health)
	for _, secret := range []string{"secret-gateway-key", strings.TrimPrefix(e.gw.URL, "http://"), e.settings.DataDir, aliceToken} {
		if strings.Contains(text, secret) {
			t.Errorf("health names %q: %s", secret, text)
		}
	}
	if g := health["gateways"].(map[string]gateway.Status)["default"]; g.KeySource != "api_key" || !g.Probed {
		t.Errorf("gateway %+v", g)
	}
	if counts := health["counts"].(map[string]any); counts["sockets"] != 1 || counts["users"] != 1 {
		t.Errorf("counts %v", counts)
	}
	if got := e.core.Stats(); got["status"] == nil || got["connections"] != 1 {
		t.Errorf("stats %v", got)
	}
}

// A gateway that wants a key while none is set, and one that is not there, show in
// health with what to do; the core serves on, degraded.
func TestGatewayTroubleShows(t *testing.T) {
	locked := fakegateway.Start(t, fakegateway.Options{Key: "gateway-key"})
	e := start(t, func(s *Settings) {
		s.Gateways = map[string]gateway.Config{
			"default": {BaseURL: locked.URL},
			"work":    {BaseURL: "http://127.0.0.1:1"},
			"good":    {BaseURL: locked.URL, Key: gateway.StaticKey("gateway-key", "api_key")},
		}
	})
	health := e.core.Health(t.Context())
	gateways := health["gateways"].(map[string]gateway.Status)
	if g := gateways["default"]; g.Reachable || g.Cause != "unauthorized" || g.Error == "" {
		t.Errorf("without key: %+v", g)
	}
	if g := gateways["work"]; g.Reachable || g.Cause != "unreachable" || g.Error == "" {
		t.Errorf("not there: %+v", g)
	}
	if g := gateways["good"]; !g.Reachable || g.KeySource != "api_key" || g.Release == "unknown" {
		t.Errorf("good: %+v", g)
	}
	if health["status"] != "degraded" || health["alive"] != false {
		t.Errorf("status %v, alive %v", health["status"], health["alive"])
	}
}

func TestModelPolicyR13(t *testing.T) {
	tests := []struct {
		policy    ModelPolicy
		asked, to string
	}{
		{ModelPolicy{}, "gpt", ""},
		{ModelPolicy{Mode: ModelsIgnore}, "gpt", ""},
		{ModelPolicy{Mode: ModelsPass}, "gpt", "gpt"},
		{ModelPolicy{Mode: ModelsMap, Map: map[string]string{"gpt": "big"}}, "gpt", "big"},
		{ModelPolicy{Mode: ModelsMap, Map: map[string]string{"gpt": "big"}}, "other", ""},
	}
	for _, tt := range tests {
		g := &generation{settings: Settings{Models: tt.policy}}
		if got := g.model(tt.asked); got != tt.to {
			t.Errorf("%v: %q becomes %q, want %q", tt.policy, tt.asked, got, tt.to)
		}
	}
}

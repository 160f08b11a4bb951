package caddymodule

import (
	"reflect"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
)

func builderWith(variables map[string]string) (settingsBuilder, *observer.ObservedLogs) {
	core, logs := observer.New(zap.WarnLevel)
	logger := zap.New(core)
	return settingsBuilder{
		repl: caddy.NewReplacer(), logger: logger,
		env: environment{logger: logger, getenv: func(name string) string { return variables[name] }},
	}, logs
}

func build(t *testing.T, variables map[string]string, app *App) (edge.Settings, *observer.ObservedLogs) {
	t.Helper()
	b, logs := builderWith(variables)
	s, err := b.build(app)
	if err != nil {
		t.Fatal(err)
	}
	return s, logs
}

func TestDefaultsAreAppliedAndNotWrittenBack(t *testing.T) {
	isolate(t)
	app := new(App)
	s, _ := build(t, nil, app)
	if !reflect.DeepEqual(app, new(App)) {
		t.Errorf("written back: %+v", app)
	}
	if s.Limits != edge.DefaultLimits() || s.Timeouts != edge.DefaultTimeouts() || s.Retention != 0 || s.Models.Mode != edge.ModelsIgnore {
		t.Errorf("%+v", s)
	}
	if len(s.Gateways) != 1 || s.Gateways["default"].BaseURL != "http://127.0.0.1:8642" {
		t.Errorf("%+v", s.Gateways)
	}
}

func TestSetValuesLieOverDefaults(t *testing.T) {
	isolate(t)
	s, _ := build(t, nil, &App{
		Limits:    &Limits{QueueLength: 4, EventRate: 7},
		Timeouts:  &Timeouts{Drain: caddy.Duration(8 * time.Second)},
		Retention: new(caddy.Duration(48 * time.Hour)),
		Models:    &Models{Mode: edge.ModelsMap, Map: map[string]string{"fast": "gpt-5-mini"}},
	})
	limits, timeouts := edge.DefaultLimits(), edge.DefaultTimeouts()
	limits.QueueLength, limits.EventRate, timeouts.Drain = 4, 7, 8*time.Second
	if s.Limits != limits || s.Timeouts != timeouts || s.Retention != 48*time.Hour || s.Models.Map["fast"] != "gpt-5-mini" {
		t.Errorf("%+v", s)
	}
}

// AC 3.1 and caddy-surface 1.1: variables of the reference products as defaults.
func TestEnvironmentDefaults(t *testing.T) {
	isolate(t)
	variables := map[string]string{
		envBaseURL: " https://gw.example.com/p/x/ ", envReadTimeout: "90", "API_SERVER_KEY": "key-of-the-server",
	}
	s, logs := build(t, variables, new(App))
	g := s.Gateways["default"]
	key, err := g.Key()
	if g.BaseURL != "https://gw.example.com/p/x/" || g.ReadTimeout != 90*time.Second || err != nil ||
		key.Value != "key-of-the-server" || key.Source != "API_SERVER_KEY" || logs.Len() != 0 {
		t.Errorf("%+v %v %v %v", g, key, err, logs.All())
	}
	variables["HERMES_WEBUI_GATEWAY_API_KEY"] = "key-of-the-web-ui"
	if key, err := g.Key(); err != nil || key.Value != "key-of-the-web-ui" {
		t.Errorf("%v %v", key, err)
	}

	s, _ = build(t, variables, &App{Gateways: map[string]*Gateway{
		"default": {Addresses: []string{"http://127.0.0.1:1"}, APIKey: "configured", ReadTimeout: caddy.Duration(time.Minute)},
	}})
	g = s.Gateways["default"]
	if key, err := g.Key(); g.BaseURL != "http://127.0.0.1:1" || g.ReadTimeout != time.Minute || err != nil || key.Value != "configured" {
		t.Errorf("configuration goes first: %+v %v %v", g, key, err)
	}
}

func TestEnvironmentWordsThatDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name, value string
		warns       bool
	}{
		{envBackend, "gateway", false}, {envBackend, " API_Server ", false}, {envBackend, "api-server", false},
		{envBackend, "", false}, {envBackend, "1", true}, {envBackend, "true", true}, {envBackend, "on", true},
		{envReadTimeout, "600", false}, {envReadTimeout, "0", true}, {envReadTimeout, "-1", true},
		{envReadTimeout, "ten", true}, {envReadTimeout, "NaN", true}, {envReadTimeout, "1e30", true},
		{envUseRuns, "", false}, {envUseRuns, "off", false}, {envUseRuns, "true", true},
	} {
		b, logs := builderWith(map[string]string{c.name: c.value})
		b.env.warnBackend()
		timeout, transport := b.env.readTimeout(), b.env.transport()
		if (logs.Len() > 0) != c.warns {
			t.Errorf("%s=%q: log %v", c.name, c.value, logs.All())
		}
		if c.warns && timeout != 0 {
			t.Errorf("%s=%q: timeout %v", c.name, c.value, timeout)
		}
		if want := map[bool]string{true: transportResponses, false: transportAuto}[c.value == "off"]; transport != want {
			t.Errorf("%s=%q: transport %q", c.name, c.value, transport)
		}
	}
}

func TestJWTSecretChain(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		want      string
	}{
		{map[string]string{envJWTSecret: "a", envAuthToken: "b"}, "a"},
		{map[string]string{envAuthToken: "b"}, "b"},
		{nil, ""},
	} {
		b, _ := builderWith(c.variables)
		if got := b.env.jwtSecret(); got != c.want {
			t.Errorf("%v: %q", c.variables, got)
		}
	}
}

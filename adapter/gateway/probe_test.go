package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// GW-3: every class is recognised without configuration.
func TestDetect(t *testing.T) {
	fake, c := fakeAndClient(t, Config{})
	for class, want := range map[string]ReleaseClass{
		"old": ReleaseOld, "A0": ReleaseA0, "A": ReleaseA, "B": ReleaseB, "C": ReleaseC, "D": ReleaseD, "E": ReleaseE,
	} {
		fake.SetClass(class)
		info, err := c.Detect(context.Background())
		if err != nil || info.Class != want {
			t.Errorf("class %s: %+v, %v", class, info, err)
		}
	}
}

// Versions that do not parse are told apart by two probes; the second is the
// only call ever made without the key, and it goes to the configured host.
func TestDetectByProbes(t *testing.T) {
	for _, test := range []struct {
		head, detailed int
		want           ReleaseClass
	}{{405, 401, ReleaseD}, {200, 401, ReleaseC}, {200, 200, ReleaseB}} {
		c := newClient(t, Config{Key: StaticKey(testKey, "api_key"), BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodHead:
				w.WriteHeader(test.head)
			case r.URL.Path == "/health/detailed":
				if r.Header.Get("Authorization") != "" {
					t.Error("the probe for an open health page carried the key")
				}
				w.WriteHeader(test.detailed)
			case r.URL.Path == "/health":
				w.Write([]byte(`{"status":"ok","platform":"hermes-agent","version":"dev"}`))
			default:
				w.Write([]byte(`{"features":{"run_approval_response":true,"session_key_header":"X"}}`))
			}
		})})
		if info, err := c.Detect(context.Background()); err != nil || info.Class != test.want {
			t.Errorf("%+v: got %v, %v", test, info.Class, err)
		}
	}
}

func TestClassOfVersion(t *testing.T) {
	for version, want := range map[string]ReleaseClass{
		"0.16.0": ReleaseB, "0.17.2": ReleaseB, "0.18.0": ReleaseC, "0.19.1": ReleaseD, "v0.20.4": ReleaseD,
		"0.99.0": ReleaseD, "1.0": ReleaseD, "dev": 0, "": 0, "0": 0, "a.b": 0, "0.-1": 0,
	} {
		if got, ok := classOfVersion(version); got != want || ok != (want != 0) {
			t.Errorf("%q: %v, %v", version, got, ok)
		}
	}
}

// AUT-05: the key goes with /health too (R12), so that a guarded one is up.
func TestHealthCarriesKey(t *testing.T) {
	fake := fakegateway.Start(t, fakegateway.Options{Key: testKey, GuardHealth: true})
	c := newClient(t, Config{BaseURL: fake.URL, Key: StaticKey(testKey, "api_key")})
	health, err := c.Health(context.Background())
	if err != nil || health.Status != "ok" || health.Version != "0.20.0" {
		t.Errorf("%+v, %v", health, err)
	}
	models, err := c.Models(context.Background())
	if err != nil || len(models) != 1 || models[0] != "hermes-agent" {
		t.Errorf("models %v, %v", models, err)
	}
	caps, err := c.Capabilities(context.Background())
	if err != nil || !caps.Features["responses_api"] || caps.Features["cors"] || caps.Model != "hermes-agent" {
		t.Errorf("capabilities %+v, %v", caps, err)
	}
}

func TestNotAGateway(t *testing.T) {
	for name, body := range map[string]string{
		"other platform": `{"status":"ok","platform":"other"}`, "page": "<html>hi</html>", "empty": "", "list": "[]",
		"too large": `{"x":"` + strings.Repeat("a", maxProbeBody) + `"}`,
	} {
		c := newClient(t, Config{BaseURL: serve(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) })})
		if _, err := c.Detect(context.Background()); AsError(err) == nil || AsError(err).Class != ClassNotAGateway {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProberStatus(t *testing.T) {
	fake := fakegateway.Start(t, fakegateway.Options{Key: testKey})
	core, logs := observer.New(zap.InfoLevel)
	c := newClient(t, Config{BaseURL: fake.URL, Logger: zap.New(core)})
	p := NewProber(c)
	defer p.Close()
	if s := p.Status(); s.Probed || s.Reachable {
		t.Errorf("before any probe: %+v", s)
	}
	_, err := p.Info(context.Background())
	s := p.Status()
	if AsError(err) == nil || s.Reachable || s.Cause != "unauthorized" || !strings.Contains(s.Error, "API_SERVER_KEY") || s.KeySource != "" {
		t.Errorf("missing key: %+v, %v", s, err)
	}
	fake.SetKey("")
	if _, err := p.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	if s := p.Status(); !s.Reachable || s.Release != "D" || s.Version != "0.20.0" || s.Error != "" {
		t.Errorf("up: %+v", s)
	}
	if _, err := p.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Only changes are logged, and the first names the missing setting.
	lines := logs.All()
	if len(lines) != 2 || !strings.Contains(lines[0].ContextMap()["error"].(string), "API_SERVER_KEY") {
		t.Errorf("log %+v", lines)
	}
}

// A gateway that comes up after the edge is found by whoever looks at the status.
func TestOldStatusIsRefreshed(t *testing.T) {
	fake := fakegateway.Start(t, fakegateway.Options{Key: testKey})
	p := NewProber(newClient(t, Config{BaseURL: fake.URL}))
	defer p.Close()
	if _, err := p.Info(context.Background()); err == nil {
		t.Fatal("a probe without the key succeeded")
	}
	fake.SetKey("")
	p.mu.Lock()
	p.at = p.at.Add(-ProbeFailureTTL)
	p.mu.Unlock()
	if s := p.Status(); s.Reachable {
		t.Errorf("the status waited for the gateway: %+v", s)
	}
	<-p.start()
	if s := p.Status(); !s.Reachable {
		t.Errorf("after the refresh: %+v", s)
	}
}

// One probe serves all callers, and its answer is kept for a while.
func TestProberShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healths := 0
		c := pipeClient(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" {
				healths++
				pause(r, time.Second)
				w.Write([]byte(`{"platform":"hermes-agent","version":"0.20.0"}`))
				return
			}
			w.Write([]byte(`{"features":{"run_approval_response":true,"session_key_header":"X"}}`))
		})
		p := NewProber(c)
		defer p.Close()
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				if info, err := p.Info(context.Background()); err != nil || info.Class != ReleaseD {
					t.Errorf("%+v, %v", info, err)
				}
			})
		}
		callers.Wait()
		if healths != 1 {
			t.Errorf("%d probes for 20 callers", healths)
		}
		time.Sleep(ProbeTTL - time.Second)
		p.Info(context.Background())
		if healths != 1 {
			t.Error("asked again too early")
		}
		time.Sleep(time.Second)
		p.Info(context.Background())
		if healths != 2 {
			t.Error("an old answer was not renewed")
		}
	})
}

func TestProberCallerMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, Config{}, func(_ http.ResponseWriter, r *http.Request) { pause(r, time.Hour) })
		p := NewProber(c)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.Info(ctx); AsError(err) == nil || AsError(err).Class != ClassCanceled {
			t.Errorf("got %v", err)
		}
		p.Close()
		if _, err := p.Refresh(context.Background()); err == nil {
			t.Error("a closed prober answered")
		}
	})
}

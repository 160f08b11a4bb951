package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-edge/hermes-edge/adapter/httpapi"
)

// R2 and R4: a configuration with the same data shares the core; a later one that
// goes away again leaves the earlier one in force.
func TestReloadSharesTheCore(t *testing.T) {
	isolate(t)
	first := serve(t, siteWith("hermes_edge {\n auth off\n}"))
	core := first.app.core.core
	second, err := provision(t, adaptConfig(t, siteWith("hermes_edge {\n auth token alice "+longToken+"\n}")))
	if err != nil {
		t.Fatal(err)
	}
	if second.app.core.core != core {
		t.Fatal("the second configuration has another core")
	}
	if err := second.app.Start(); err != nil {
		t.Fatal(err)
	}
	if err := second.app.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := second.app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if status, user, _, _ := first.whoami(t); status != 200 || user != "anonymous" {
		t.Errorf("after the undone reload: %d %q", status, user)
	}
	if refs, ok := cores.References(first.app.core.key); !ok || refs != 1 {
		t.Errorf("%d references", refs)
	}
}

func TestAnotherDataDirIsAnotherCore(t *testing.T) {
	isolate(t)
	a := serve(t, "{\n hermes {\n data_dir "+t.TempDir()+"\n }\n}\n"+siteWith("hermes_edge"))
	b := serve(t, "{\n hermes {\n data_dir "+t.TempDir()+"\n }\n}\n"+siteWith("hermes_edge"))
	if a.app.core == b.app.core {
		t.Error("one core for two data files")
	}
}

// The last Cleanup drains the core without blocking, and lets the data file go.
func TestLastCleanupDrains(t *testing.T) {
	isolate(t)
	s := serve(t, siteWith("hermes_edge"))
	core := s.app.core.core
	if err := s.app.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.app.Cleanup(); err != nil {
		t.Fatal(err)
	}
	draining.awaitAll()
	if got := core.Status(); got != httpapi.StatusDraining {
		t.Errorf("status %q", got)
	}
	again := serve(t, siteWith("hermes_edge"))
	if status := again.app.core.core.Status(); status == httpapi.StatusStarting {
		t.Errorf("the data file is not free: %q", status)
	}
}

func TestCleanupIsNilSafe(t *testing.T) {
	if err := new(App).Cleanup(); err != nil {
		t.Fatal(err)
	}
	if err := new(App).Stop(); err != nil {
		t.Fatal(err)
	}
}

// Collectors are registered anew on each configuration's registry.
func TestMetricsSurviveReload(t *testing.T) {
	for range 2 {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
			t.Fatal(err)
		}
		if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
			t.Fatalf("a second app of one configuration: %v", err)
		}
		families, err := ctx.GetMetricsRegistry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range families {
			found = found || strings.HasPrefix(f.GetName(), "hermes_edge_")
		}
		if !found {
			t.Error("no metric of ours")
		}
		cancel()
	}
}

func adminDo(t *testing.T, method, path string) (int, map[string]any) {
	t.Helper()
	for _, route := range (Admin{}).Routes() {
		if route.Pattern != path {
			continue
		}
		w := httptest.NewRecorder()
		err := route.Handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if apiErr, ok := err.(caddy.APIError); ok {
			return apiErr.HTTPStatus, map[string]any{"error": apiErr.Err.Error()}
		}
		body := map[string]any{}
		if err := json.NewDecoder(w.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		return w.Code, body
	}
	t.Fatalf("no route %s", path)
	return 0, nil
}

func TestAdminRoutes(t *testing.T) {
	isolate(t)
	if status, body := adminDo(t, http.MethodGet, adminReady); status != 503 || body["status"] != "starting" {
		t.Errorf("without a core: %d %v", status, body)
	}
	s := serve(t, siteWith("hermes_edge"))
	if status, _ := adminDo(t, http.MethodGet, adminReady); status != 200 {
		t.Errorf("ready: %d", status)
	}
	if status, _ := adminDo(t, http.MethodGet, adminLive); status != 200 {
		t.Errorf("live: %d", status)
	}
	if status, body := adminDo(t, http.MethodGet, adminStats); status != 200 || len(body["cores"].([]any)) != 1 {
		t.Errorf("stats: %d %v", status, body)
	}
	if status, _ := adminDo(t, http.MethodGet, adminDrain); status != 405 {
		t.Errorf("GET drain: %d", status)
	}
	_, old := adminDo(t, http.MethodGet, adminToken)
	status, fresh := adminDo(t, http.MethodPost, adminRotate)
	if status != 200 || old["token"] == fresh["token"] {
		t.Errorf("rotate: %d %v %v", status, old, fresh)
	}
	if status, _, _, _ := s.whoami(t, bearer(old["token"].(string))...); status != http.StatusUnauthorized {
		t.Errorf("old token: %d", status)
	}
	if status, _, _, _ := s.whoami(t, bearer(fresh["token"].(string))...); status != 200 {
		t.Errorf("new token: %d", status)
	}
	if status, body := adminDo(t, http.MethodPost, adminDrain); status != 202 || body["status"] != "draining" {
		t.Errorf("drain: %d %v", status, body)
	}
	if status, body := adminDo(t, http.MethodGet, adminReady); status != 503 || body["status"] != "draining" {
		t.Errorf("ready while draining: %d %v", status, body)
	}
}

func TestAdminHasNoTokenWithAuth(t *testing.T) {
	isolate(t)
	serve(t, siteWith("hermes_edge {\n auth off\n}"))
	if status, body := adminDo(t, http.MethodGet, adminToken); status != 404 {
		t.Errorf("%d %v", status, body)
	}
}

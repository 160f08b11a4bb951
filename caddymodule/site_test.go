package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// site is a provisioned configuration without listeners: requests go straight to
// its server.
type site struct {
	app    *App
	server *caddyhttp.Server // nil if the configuration has none
}

// isolate keeps the host's files and variables out of a test and returns the
// folder that Caddy uses as its data directory.
func isolate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HERMES_HOME", t.TempDir())
	for _, name := range []string{
		envBackend, envBaseURL, envReadTimeout, envUseRuns, envJWTSecret, envAuthToken,
		"HERMES_WEBUI_GATEWAY_API_KEY", "API_SERVER_KEY",
	} {
		t.Setenv(name, "")
	}
	return dir
}

func adaptConfig(t *testing.T, caddyfile string) []byte {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), nil)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// provision provisions JSON; whatever comes of it is cleaned up.
func provision(t *testing.T, config []byte) (*site, error) {
	t.Helper()
	var parsed caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &parsed); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&parsed)
	if err != nil {
		return nil, err
	}
	module, err := ctx.App(appName)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{app: module.(*App)}
	t.Cleanup(func() {
		if err := s.app.Cleanup(); err != nil {
			t.Error(err)
		}
		draining.awaitAll()
	})
	if httpApp, err := ctx.AppIfConfigured("http"); err == nil {
		for _, srv := range httpApp.(*caddyhttp.App).Servers {
			s.server = srv
		}
	}
	return s, nil
}

// serve provisions a Caddyfile and starts the app.
func serve(t *testing.T, caddyfile string) *site {
	t.Helper()
	s, err := provision(t, adaptConfig(t, caddyfile))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.app.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.app.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.server.ServeHTTP(w, r)
	return w
}

func (s *site) get(target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.do(r)
}

// wrapHandler is the JSON of a configuration with one handler.
func wrapHandler(handler string) []byte {
	return []byte(`{"apps":{"http":{"servers":{"srv0":{"listen":[":8680"],"routes":[{"handle":[` + handler + `]}]}}}}}`)
}

// whoami asks the HTTP API who a bearer token, or a header, is.
func (s *site) whoami(t *testing.T, header ...string) (status int, user string, admin bool, profiles []string) {
	t.Helper()
	w := s.get("http://chat.test/chat-run/me", header...)
	var body struct {
		User struct {
			ID    string `json:"id"`
			Admin bool   `json:"admin"`
		} `json:"user"`
		Profiles []string `json:"profiles"`
	}
	if w.Code == http.StatusOK {
		if err := json.NewDecoder(strings.NewReader(w.Body.String())).Decode(&body); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code, body.User.ID, body.User.Admin, body.Profiles
}

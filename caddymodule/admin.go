package caddymodule

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/httpapi"
)

// Paths on the admin endpoint.
const (
	adminLive   = "/hermes/health/live"
	adminReady  = "/hermes/health/ready"
	adminStats  = "/hermes/stats"
	adminDrain  = "/hermes/drain"
	adminToken  = "/hermes/token"
	adminRotate = "/hermes/token/rotate"
)

// Admin adds the routes below /hermes/ to Caddy's admin endpoint. It exists before
// the apps do and is never cleaned up, so it looks for the cores at each request.
type Admin struct{}

// CaddyModule implements [caddy.Module].
func (Admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.hermes", New: func() caddy.Module { return new(Admin) }}
}

// Routes implements [caddy.AdminRouter].
func (Admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: adminLive, Handler: forMethod(http.MethodGet, serveLive)},
		{Pattern: adminReady, Handler: forMethod(http.MethodGet, serveReady)},
		{Pattern: adminStats, Handler: forMethod(http.MethodGet, serveStats)},
		{Pattern: adminDrain, Handler: forMethod(http.MethodPost, serveDrain)},
		{Pattern: adminToken, Handler: forMethod(http.MethodGet, serveToken)},
		{Pattern: adminRotate, Handler: forMethod(http.MethodPost, serveRotate)},
	}
}

func forMethod(method string, serve caddy.AdminHandlerFunc) caddy.AdminHandler {
	return caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		if r.Method != method {
			w.Header().Set("Allow", method)
			return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("use " + method)}
		}
		return serve(w, r)
	})
}

// pooledCores are the cores that a configuration uses.
func pooledCores() []*pooledCore {
	var all []*pooledCore
	cores.Range(func(_, value any) bool {
		if c, ok := value.(*pooledCore); ok {
			all = append(all, c)
		}
		return true
	})
	return all
}

func liveCores() []*edge.Core {
	var all []*edge.Core
	for _, c := range pooledCores() {
		all = append(all, c.core)
	}
	return all
}

func serveLive(w http.ResponseWriter, _ *http.Request) error {
	return answer(w, http.StatusOK, map[string]any{"status": "ok"})
}

// serveReady answers 503 until a core is there and all of them serve.
func serveReady(w http.ResponseWriter, _ *http.Request) error {
	state, status := httpapi.StatusStarting, http.StatusServiceUnavailable
	for i, core := range liveCores() {
		s := core.Status()
		ready := isReady(s)
		if i == 0 || !ready {
			state = s
		}
		if !ready {
			status = http.StatusServiceUnavailable
			break
		}
		status = http.StatusOK
	}
	if status != http.StatusOK {
		w.Header().Set("Retry-After", "1")
	}
	return answer(w, status, map[string]any{"status": state})
}

func serveStats(w http.ResponseWriter, _ *http.Request) error {
	stats := []map[string]any{}
	for _, core := range liveCores() {
		stats = append(stats, core.Stats())
	}
	return answer(w, http.StatusOK, map[string]any{"cores": stats})
}

// serveDrain takes this process out of service while it goes on running: not
// ready, no new handshakes. What other nodes can go on with is handed over: clients
// are told to connect again, waiting messages are left to others, and runs have a
// minute to end. Whoever calls it stops or restarts the process next.
func serveDrain(w http.ResponseWriter, _ *http.Request) error {
	for _, c := range pooledCores() {
		c.core.BeginExit()
		if c.core.Shared() {
			draining.start(c)
		}
	}
	return answer(w, http.StatusAccepted, map[string]any{"status": httpapi.StatusDraining})
}

func serveToken(w http.ResponseWriter, _ *http.Request) error {
	return withToken(w, (*edge.Core).AccessToken)
}

func serveRotate(w http.ResponseWriter, _ *http.Request) error {
	return withToken(w, (*edge.Core).RotateAccessToken)
}

func withToken(w http.ResponseWriter, get func(*edge.Core) (string, error)) error {
	failure := edge.ErrNoToken
	for _, core := range liveCores() {
		token, err := get(core)
		if err == nil {
			return answer(w, http.StatusOK, tokenAnswer{Token: token})
		}
		if !errors.Is(err, edge.ErrNoToken) {
			failure = err
		}
	}
	status := http.StatusInternalServerError
	switch {
	case errors.Is(failure, edge.ErrNoToken):
		status = http.StatusNotFound
	case errors.Is(failure, edge.ErrTokenLater):
		status = http.StatusServiceUnavailable
	}
	return caddy.APIError{HTTPStatus: status, Err: failure}
}

// tokenAnswer is the body of the token routes.
type tokenAnswer struct {
	Token string `json:"token"`
}

func answer(w http.ResponseWriter, status int, body any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(body)
}

// Interface guards
var (
	_ caddy.Module      = (*Admin)(nil)
	_ caddy.AdminRouter = (*Admin)(nil)
)

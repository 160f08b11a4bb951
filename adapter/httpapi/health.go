package httpapi

import (
	"net/http"
	"strconv"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

type healthAnswer struct {
	Status string `json:"status"`
}

// health is readiness: 503 tells a load balancer to send nobody here. It is open
// and says one word (R17).
func (a *api) health(w http.ResponseWriter, _ *http.Request, _ *auth.Principal, _ string) error {
	state := a.cfg.Status()
	if state == StatusOK || state == StatusDegraded {
		return writeJSON(w, http.StatusOK, healthAnswer{state})
	}
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	return writeJSON(w, http.StatusServiceUnavailable, healthAnswer{state})
}

// live answers while the process serves.
func (a *api) live(w http.ResponseWriter, _ *http.Request, _ *auth.Principal, _ string) error {
	return writeJSON(w, http.StatusOK, healthAnswer{StatusOK})
}

// detailed shows addresses and settings of the operator, so it is for admins.
func (a *api) detailed(w http.ResponseWriter, r *http.Request, p *auth.Principal, _ string) error {
	if !p.Admin {
		return errAdmin
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	return writeJSON(w, http.StatusOK, a.cfg.Health(ctx))
}

package httpapi

import (
	"net/http"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

type meAnswer struct {
	User     userAnswer `json:"user"`
	Profiles []string   `json:"profiles"`
	Features any        `json:"features"`
}

type userAnswer struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Admin bool   `json:"admin"`
}

// me tells a page who is signed in and what it may offer him.
func (a *api) me(w http.ResponseWriter, _ *http.Request, p *auth.Principal, _ string) error {
	answer := meAnswer{
		User:     userAnswer{ID: p.User, Name: p.User, Admin: p.Admin},
		Profiles: a.cfg.Profiles(p),
		Features: struct{}{},
	}
	if answer.Profiles == nil {
		answer.Profiles = []string{}
	}
	if a.cfg.Features != nil {
		answer.Features = a.cfg.Features(p)
	}
	return writeJSON(w, http.StatusOK, answer)
}

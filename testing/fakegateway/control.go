package fakegateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// notify wakes WaitFor; s.mu is held.
func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) turnsRunning(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active += n
	s.notify()
}

// hold counts a turn that waits for the release; leave takes it off again, unless
// the release has done so.
func (s *Server) hold() (release <-chan struct{}, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine := s.release
	s.held++
	s.notify()
	return mine, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.release == mine {
			s.held--
			s.notify()
		}
	}
}

// State is a moment of the fake gateway.
type State struct {
	Requests int `json:"requests"` // ever received
	Active   int `json:"active"`   // turns that run
	Held     int `json:"held"`     // turns that wait for a release
}

func (s *Server) stateLocked() State {
	return State{Requests: s.nextID, Active: s.active, Held: s.held}
}

// State returns the counters.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateLocked()
}

// WaitFor blocks until the state fulfils the condition or ctx ends.
func (s *Server) WaitFor(ctx context.Context, condition func(State) bool) error {
	for {
		s.mu.Lock()
		state, changed := s.stateLocked(), s.changed
		s.mu.Unlock()
		if condition(state) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fake gateway stayed at %+v: %w", state, ctx.Err())
		}
	}
}

// Requests returns copies of the newest 500 requests, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, 0, len(s.requests))
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
}

// Turns returns the recorded POST /v1/responses, oldest first.
func (s *Server) Turns() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool {
		return r.Method != http.MethodPost || r.Path != "/v1/responses"
	})
}

// Clear forgets the recorded requests and the attempts.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
	clear(s.attempts)
}

// Release lets every held turn go on; later ones are held again. Released turns
// count as held no more, so that whoever waits for the next one sees only that.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.release)
	s.release = make(chan struct{})
	s.held = 0
	s.notify()
}

// SetKey changes the key that is demanded.
func (s *Server) SetKey(key string) { s.change(func() { s.options.Key = key }) }

// SetClass changes the release class.
func (s *Server) SetClass(class string) { s.change(func() { s.options.Class = class }) }

// SetScript changes what turns do; nil is Keywords.
func (s *Server) SetScript(script Script) { s.change(func() { s.options.Script = script }) }

// SetDraining makes turns answer 503 gateway_draining.
func (s *Server) SetDraining(on bool) { s.change(func() { s.draining = on }) }

func (s *Server) change(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set()
	s.notify()
}

// controlRoutes are the same for suites in other languages:
//
//	GET    /__control/requests          recorded requests
//	DELETE /__control/requests          forget them
//	GET    /__control/state             counters
//	GET    /__control/held?value=N      the same, as soon as N turns wait for a release
//	POST   /__control/release           let held turns go on
//	POST   /__control/key?value=…       demand another key
//	POST   /__control/class?value=B     be another release
//	POST   /__control/drain?value=true  refuse turns
func (s *Server) controlRoutes() {
	s.mux.HandleFunc("GET /__control/requests", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Requests()) })
	s.mux.HandleFunc("GET /__control/state", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.State()) })
	s.mux.HandleFunc("GET /__control/held", s.awaitHeld)
	s.control("DELETE /__control/requests", func(string) error { s.Clear(); return nil })
	s.control("POST /__control/release", func(string) error { s.Release(); return nil })
	s.control("POST /__control/key", func(value string) error { s.SetKey(value); return nil })
	s.control("POST /__control/drain", func(value string) error { s.SetDraining(value == "true"); return nil })
	s.control("POST /__control/class", func(value string) error {
		if !slices.Contains(classes, value) {
			return fmt.Errorf("unknown class %q, there are %v", value, classes)
		}
		s.SetClass(value)
		return nil
	})
}

func (s *Server) awaitHeld(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("value"))
	if err != nil {
		http.Error(w, "value must be a number", http.StatusBadRequest)
		return
	}
	if err := s.WaitFor(r.Context(), func(state State) bool { return state.Held == n }); err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
		return
	}
	writeJSON(w, s.State())
}

func (s *Server) control(pattern string, do func(value string) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := do(r.URL.Query().Get("value")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	// The client of a test tool notices a broken reply itself.
	_ = json.NewEncoder(w).Encode(value)
}

package fakegateway

import (
	"net/http"
	"slices"
)

// classes in order of age.
var classes = []string{"old", "A0", "A", "B", "C", "D", "E"}

var versions = map[string]string{"C": "0.18.0", "D": "0.20.0", "E": "0.21.0"}

func (s *Server) class() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Class == "" {
		return "D"
	}
	return s.options.Class
}

func (s *Server) classIs(any ...string) bool { return slices.Contains(any, s.class()) }

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead && s.classIs("D", "E") {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "405: Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	guard := s.options.GuardHealth
	s.mu.Unlock()
	if guard && !s.admits(r) {
		s.guarded(nil)(w, r)
		return
	}
	body := object{"status", "ok", "platform", "hermes-agent"}
	if version, ok := versions[s.class()]; ok {
		body = append(body, "version", version)
	}
	s.reply(w, http.StatusOK, body)
}

func (s *Server) healthDetailed(w http.ResponseWriter, r *http.Request) {
	if s.classIs("C", "D", "E") && !s.admits(r) {
		s.guarded(nil)(w, r)
		return
	}
	s.mu.Lock()
	active, state := s.active, "running"
	if s.draining {
		state = "draining"
	}
	s.mu.Unlock()
	s.reply(w, http.StatusOK, object{
		"status", "ok", "platform", "hermes-agent", "gateway_state", state,
		"platforms", object{"api_server", object{"state", "connected", "error_code", nil, "error_message", nil}},
		"active_agents", active, "exit_reason", nil, "updated_at", nil, "pid", 1,
	})
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	s.reply(w, http.StatusOK, object{"object", "list", "data", list{object{
		"id", modelName, "object", "model", "created", 1781690400, "owned_by", "hermes",
		"permission", list{}, "root", modelName, "parent", nil,
	}}})
}

var featuresSince = []struct {
	name  string
	value any
	since string
}{
	{"chat_completions", true, "A0"},
	{"chat_completions_streaming", true, "A0"},
	{"responses_api", true, "A0"},
	{"responses_streaming", true, "A0"},
	{"run_submission", true, "A0"},
	{"run_status", true, "A0"},
	{"run_events_sse", true, "A0"},
	{"run_stop", true, "A0"},
	{"tool_progress_events", true, "A0"},
	{"session_continuity_header", "X-Hermes-Session-Id", "A0"},
	{"cors", false, "A0"},
	{"session_key_header", "X-Hermes-Session-Key", "A"},
	{"run_approval_response", true, "B"},
	{"approval_events", true, "B"},
	{"session_resources", true, "B"},
	{"jobs_admin", false, "B"},
	{"model_options", true, "D"},
	{"runs_idempotency", object{"supported", true, "durable", true, "retention_seconds", 86400}, "E"},
	{"run_steer", true, "E"},
}

func (s *Server) capabilities(w http.ResponseWriter, r *http.Request) {
	class := s.class()
	if class == "old" {
		notFound(w, r)
		return
	}
	var features object
	for _, f := range featuresSince {
		if slices.Index(classes, f.since) <= slices.Index(classes, class) {
			features = append(features, f.name, f.value)
		}
	}
	s.reply(w, http.StatusOK, object{
		"object", "hermes.api_server.capabilities", "platform", "hermes-agent", "model", modelName,
		"auth", object{"type", "bearer", "required", true}, "features", features,
		"endpoints", object{"responses", object{"method", "POST", "path", "/v1/responses"}},
	})
}

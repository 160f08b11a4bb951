// Package fakellm is a scripted, OpenAI-compatible model for tests that run a real hermes-agent.
// The last message of a request decides the answer (Script); every request is recorded.
package fakellm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	maxBody     = 32 << 20
	maxRecorded = 200
	modelName   = "scripted-model"
)

// Request is one recorded model call.
type Request struct {
	// Stream tells whether the caller asked for a stream; an agent turn always does.
	Stream bool `json:"stream"`
	// Messages is the conversation as the agent sent it, the system message included.
	Messages []Message `json:"messages"`
	// Tools are the names of the tools that the agent offered.
	Tools []string `json:"tools"`
}

// Message is one message of a request, its content flattened to text.
type Message struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// Server answers model calls. It is an http.Handler and safe for concurrent use.
type Server struct {
	// Pace is the time between two chunks of a slow answer. Zero means one second.
	Pace time.Duration

	mu       sync.Mutex
	recorded []Request
}

// ServeHTTP serves POST …/chat/completions and GET /__requests. Everything else is 404, which the
// agent's probes for model lists take as "not available" (spec gateway 8.4).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions"):
		s.complete(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/__requests":
		writeJSON(w, http.StatusOK, s.Requests())
	default:
		http.NotFound(w, r)
	}
}

// Requests returns the recorded calls, oldest first, at most the last 200.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request{}, s.recorded...)
}

func (s *Server) record(request Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recorded) == maxRecorded {
		s.recorded = s.recorded[1:]
	}
	s.recorded = append(s.recorded, request)
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	request, err := decode(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	s.record(request)
	if !request.Stream {
		// Titles and other auxiliary calls. They must not act on a keyword that they quote.
		writeJSON(w, http.StatusOK, plainCompletion("Scripted title"))
		return
	}
	reply := Script(request.Messages)
	if reply.Status != 0 {
		writeError(w, reply.Status, fmt.Sprintf("scripted error %d", reply.Status))
		return
	}
	s.stream(w, r, reply)
}

type wireRequest struct {
	Stream   bool `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

func decode(body io.Reader) (Request, error) {
	var wire wireRequest
	if err := json.NewDecoder(body).Decode(&wire); err != nil {
		return Request{}, fmt.Errorf("request is not JSON: %w", err)
	}
	if len(wire.Messages) == 0 {
		return Request{}, fmt.Errorf("request has no messages")
	}
	request := Request{Stream: wire.Stream}
	for _, message := range wire.Messages {
		request.Messages = append(request.Messages, Message{Role: message.Role, Text: flatten(message.Content)})
	}
	for _, tool := range wire.Tools {
		request.Tools = append(request.Tools, tool.Function.Name)
	}
	return request, nil
}

// flatten returns the text of a content: a string, or the text parts of a list.
func flatten(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var texts []string
	for _, part := range parts {
		if part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func plainCompletion(text string) map[string]any {
	return map[string]any{
		"id": "c1", "object": "chat.completion", "created": 1, "model": modelName,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": text},
		}},
		"usage": usage,
	}
}

func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"error": map[string]any{"message": message, "type": "scripted_error"}})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

package fakegateway

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"
)

const maxStored = 100

// responseStore keeps the newest stored responses, like the gateway's own.
type responseStore struct {
	mu      sync.Mutex
	order   []string
	entries map[string]object
	first   map[string]object // shown once instead, by id
}

func (s *responseStore) put(id string, envelope object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries == nil {
		s.entries, s.first = make(map[string]object), make(map[string]object)
	}
	if _, known := s.entries[id]; !known {
		s.order = append(s.order, id)
	}
	s.entries[id] = envelope
	if len(s.order) > maxStored {
		delete(s.entries, s.order[0])
		delete(s.first, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
}

// delay makes the next look at id see another envelope.
func (s *responseStore) delay(id string, envelope object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first[id] = envelope
}

func (s *responseStore) get(id string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if envelope, ok := s.first[id]; ok {
		delete(s.first, id)
		return envelope, true
	}
	envelope, ok := s.entries[id]
	return envelope, ok
}

func (s *responseStore) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.entries[id]
	delete(s.entries, id)
	delete(s.first, id)
	if i := slices.Index(s.order, id); i >= 0 {
		s.order = slices.Delete(s.order, i, i+1)
	}
	return ok
}

func (s *Server) getResponse(w http.ResponseWriter, r *http.Request) {
	envelope, ok := s.stored.get(r.PathValue("id"))
	if !ok {
		s.reply(w, http.StatusNotFound, errorBody("Response not found: "+r.PathValue("id"), "invalid_request_error", nil))
		return
	}
	s.reply(w, http.StatusOK, envelope)
}

func (s *Server) deleteResponse(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.stored.remove(id) {
		s.reply(w, http.StatusNotFound, errorBody("Response not found: "+id, "invalid_request_error", nil))
		return
	}
	s.reply(w, http.StatusOK, object{"id", id, "object", "response", "deleted", true})
}

// newID returns prefix and n random hex digits.
func newID(prefix string, n int) string {
	b := make([]byte, n/2)
	rand.Read(b)
	return prefix + hex.EncodeToString(b)
}

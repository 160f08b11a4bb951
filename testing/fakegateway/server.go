package fakegateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	maxRecorded     = 500
	maxRecordedBody = 256 << 10
)

// Options set up a fake gateway. The zero value is an open gateway of class D
// that follows [Keywords].
type Options struct {
	Key    string // required as bearer on everything but health; "" admits everybody
	Class  string // "old", "A0", "A", "B", "C", "D" or "E"; "" is "D"
	Script Script // what a turn does; nil is Keywords
	// GuardHealth demands the key on /health as well (an access proxy).
	GuardHealth bool
}

// Script carries out one turn of POST /v1/responses. It runs in the request's
// goroutine and may look at the request, then streams or answers something else.
type Script func(t *Turn)

// Request is one recorded request.
type Request struct {
	ID     int         `json:"id"`
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Header http.Header `json:"headers"`
	Body   string      `json:"body"` // at most 256 KiB
	// Done says that the fake has finished the request, ClientGone that the
	// client closed it before.
	Done       bool      `json:"done"`
	ClientGone bool      `json:"client_gone"`
	At         time.Time `json:"at"`
}

// Server is a fake gateway; it is an http.Handler and safe for concurrent use.
type Server struct {
	URL string // set by Start

	mux *http.ServeMux

	mu       sync.Mutex
	options  Options
	draining bool
	nextID   int
	requests []*Request
	active   int           // turns that run
	held     int           // turns that wait for a release
	release  chan struct{} // closed by Release
	changed  chan struct{} // closed at every change of what WaitFor looks at
	attempts map[string]int
	stored   responseStore
}

// New returns a fake gateway to be served by the caller.
func New(options Options) *Server {
	s := &Server{
		options: options, release: make(chan struct{}), changed: make(chan struct{}),
		attempts: make(map[string]int),
	}
	s.routes()
	return s
}

// Start serves a fake gateway on a loopback port until the test ends.
func Start(tb testing.TB, options Options) *Server {
	tb.Helper()
	s := New(options)
	server := httptest.NewServer(s)
	s.URL = server.URL
	tb.Cleanup(func() {
		s.Release()
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /v1/health", s.health)
	s.mux.HandleFunc("GET /health/detailed", s.healthDetailed)
	s.mux.HandleFunc("GET /v1/models", s.guarded(s.models))
	s.mux.HandleFunc("GET /v1/capabilities", s.guarded(s.capabilities))
	s.mux.HandleFunc("POST /v1/responses", s.guarded(s.responses))
	s.mux.HandleFunc("GET /v1/responses/{id}", s.guarded(s.getResponse))
	s.mux.HandleFunc("DELETE /v1/responses/{id}", s.guarded(s.deleteResponse))
	s.mux.HandleFunc("/", notFound)
	s.controlRoutes()
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "404: Not Found", http.StatusNotFound)
}

// ServeHTTP answers one request. A path prefix /p/<profile> is ignored, as a
// gateway without multiplexing does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if rest, ok := strings.CutPrefix(r.URL.Path, "/p/"); ok {
		if _, path, ok := strings.Cut(rest, "/"); ok {
			r.URL.Path, r.URL.RawPath = "/"+path, ""
		}
	}
	if strings.HasPrefix(r.URL.Path, "/__control/") {
		s.mux.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.bodyLimit()))
	record := s.record(r, body)
	defer s.finish(record, r)
	if r.Header.Get("Origin") != "" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if err != nil {
		s.reply(w, http.StatusRequestEntityTooLarge, errorBody("Request body too large.", "invalid_request_error", "body_too_large"))
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mux.ServeHTTP(w, r)
}

func (s *Server) bodyLimit() int64 {
	if s.classIs("A0", "old") {
		return 1_000_000
	}
	return 10_000_000
}

func (s *Server) record(r *http.Request, body []byte) *Request {
	record := &Request{Method: r.Method, Path: r.URL.Path, Header: r.Header.Clone(), Body: string(body[:min(len(body), maxRecordedBody)]), At: time.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	record.ID = s.nextID
	s.requests = append(s.requests, record)
	if len(s.requests) > maxRecorded {
		s.requests = append(s.requests[:0], s.requests[1:]...)
	}
	s.notify()
	return record
}

func (s *Server) finish(record *Request, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record.Done = true
	record.ClientGone = record.ClientGone || r.Context().Err() != nil
	s.notify()
}

// guarded wraps a route that needs the key.
func (s *Server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.admits(r) {
			next(w, r)
			return
		}
		kind, code := "invalid_request_error", "invalid_api_key"
		if s.classIs("D", "E") {
			kind, code = "gateway_auth_error", "gateway_auth_failed"
		}
		s.reply(w, http.StatusUnauthorized, object{"error", object{"message", "Invalid API key", "type", kind, "code", code}})
	}
}

func (s *Server) admits(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Key == "" || r.Header.Get("Authorization") == "Bearer "+s.options.Key
}

func (s *Server) reply(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	w.WriteHeader(status)
	io.WriteString(w, jsonText(body))
}

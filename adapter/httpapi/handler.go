package httpapi

import (
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

const (
	prefix          = "/chat-run/"
	agentHealthPath = "/api/health/agent"
)

// Claims reports whether a path, as the mount sees it, belongs to the handler;
// page says whether the mount shows the page.
func Claims(path string, page bool) bool {
	switch path {
	case "/chat-run", prefix:
		return page
	case agentHealthPath:
		return true
	}
	return strings.HasPrefix(path, prefix)
}

// api is the handler.
type api struct {
	cfg    Config
	routes map[string]*route
}

// operation answers a request. p is nil on open routes; id is the session of the
// path. What it returns as an error is the answer.
type operation func(w http.ResponseWriter, r *http.Request, p *auth.Principal, id string) error

// route is a path with its methods. Open ones need no credential.
type route struct {
	pattern string
	open    bool
	methods map[string]operation
}

// New returns the handler for the paths that Claims names.
func New(cfg Config) http.Handler {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	a := &api{cfg: cfg, routes: make(map[string]*route)}
	for _, rt := range []route{
		{"health", true, map[string]operation{http.MethodGet: a.health}},
		{"health/live", true, map[string]operation{http.MethodGet: a.live}},
		{"health/detailed", false, map[string]operation{http.MethodGet: a.detailed}},
		{"me", false, map[string]operation{http.MethodGet: a.me}},
		{"sessions", false, map[string]operation{http.MethodGet: a.list}},
		{"sessions/{id}", false, map[string]operation{
			http.MethodGet: a.session, http.MethodPatch: a.update, http.MethodDelete: a.remove,
		}},
		{"sessions/{id}/messages", false, map[string]operation{http.MethodGet: a.messages}},
	} {
		a.routes[rt.pattern] = &rt
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	name := a.dispatch(rec, r)
	if a.cfg.Observer != nil {
		a.cfg.Observer.HTTPRequest(name, rec.status, time.Since(start))
	}
}

// dispatch answers the request and returns the name of the route for metrics.
func (a *api) dispatch(w http.ResponseWriter, r *http.Request) (name string) {
	rt, id, found := a.find(r.URL.Path)
	if !found && a.cfg.Page != nil {
		if r.URL.Path == "/chat-run" {
			redirectToPage(w, r)
		} else {
			a.servePage(w, r)
		}
		return "page"
	}
	setHeaders(w.Header())
	if !found {
		writeError(w, errNoRoute)
		return "unknown"
	}
	if err := a.serve(w, r, rt, id); err != nil {
		a.fail(w, r, err)
	}
	return rt.pattern
}

// find returns the route of a path and the session it names. Names of the API are
// never looked up among the page's assets.
func (a *api) find(path string) (rt *route, id string, found bool) {
	if path == agentHealthPath {
		return a.routes["health/detailed"], "", true
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return nil, "", false
	}
	if rt, ok := a.routes[rest]; ok && !strings.Contains(rest, "{") {
		return rt, "", true
	}
	rest, ok = strings.CutPrefix(rest, "sessions/")
	if !ok {
		return nil, "", false
	}
	id, tail, nested := strings.Cut(rest, "/")
	pattern := "sessions/{id}"
	if nested {
		pattern += "/" + tail
	}
	rt, ok = a.routes[pattern]
	return rt, id, ok
}

// serve checks what every route asks for, in the order in which the answers give
// least away.
func (a *api) serve(w http.ResponseWriter, r *http.Request, rt *route, id string) error {
	origin, allowed := a.origin(r)
	a.cfg.Origins.SetHeaders(w.Header(), origin)
	if origin != "" {
		w.Header().Set("Access-Control-Expose-Headers", "Retry-After")
	}
	if r.Method == http.MethodOptions {
		return preflight(w, r, rt, allowed)
	}
	op, ok := rt.operation(r.Method)
	if !ok {
		return errMethod(rt.allow())
	}
	if !allowed && !safe(r.Method) {
		return errOrigin
	}
	if rt.open {
		return op(w, r, nil, id)
	}
	if q := r.URL.Query(); q.Has("token") || q.Has("access_token") {
		return badRequest("send the token in the Authorization header, not in the address")
	}
	p, err := a.cfg.Authenticate(r)
	if err != nil {
		return err
	}
	return op(w, r, p, id)
}

func (a *api) origin(r *http.Request) (string, bool) {
	trusted := a.cfg.TrustForwardedHost != nil && a.cfg.TrustForwardedHost(r)
	return a.cfg.Origins.Allowed(r, trusted)
}

// preflight answers OPTIONS: a browser asks so before it lets a page of another
// origin send what a form could not.
func preflight(w http.ResponseWriter, r *http.Request, rt *route, allowed bool) error {
	if !allowed {
		return errOrigin
	}
	h := w.Header()
	h.Set("Allow", rt.allow())
	if r.Header.Get("Access-Control-Request-Method") != "" && h.Get("Access-Control-Allow-Origin") != "" {
		h.Set("Access-Control-Allow-Methods", rt.allow())
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
		h.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// operation finds what a method does. HEAD is GET; the server drops the body.
func (rt *route) operation(method string) (operation, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, ok := rt.methods[method]
	return op, ok
}

// allow lists the methods of the route.
func (rt *route) allow() string {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		if _, ok := rt.methods[m]; !ok {
			continue
		}
		methods = append(methods, m)
		if m == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(append(methods, http.MethodOptions), ", ")
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// setHeaders: no answer of the API is a document, to be kept, or to be guessed at.
func setHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

// recorder remembers the status for metrics.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

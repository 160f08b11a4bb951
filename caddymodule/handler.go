package caddymodule

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/httpapi"
	"github.com/hermes-edge/hermes-edge/adapter/httpapi/page"
)

// Handler serves the chat-run socket, the HTTP API beside it and the built-in
// page, and passes every other request on. It says who may come in here and what
// is shown; data and gateways belong to the app.
type Handler struct {
	// Who may come in, tried in order. Default: the access token that is made at
	// the first start.
	Auth []AuthRule `json:"auth,omitempty"`

	// Origins from which web pages may connect, besides the site's own; "*" is
	// every one. Placeholders are allowed. Default: none.
	Origins []string `json:"origins,omitempty"`

	// Profiles that exist here, whatever a user may use elsewhere. Default: all.
	Profiles []string `json:"profiles,omitempty"`

	// "private": users open their own sessions. "shared": whoever may use a profile
	// opens all sessions of it. Default: "private", with auth off "shared".
	Sessions string `json:"sessions,omitempty"`

	// Whether the built-in page is served. Default: true.
	Page *bool `json:"page,omitempty"`

	logger       *zap.Logger
	core         *edge.Core
	mount        *edge.Mount
	placeholders []string
	api          http.Handler
	warned       atomic.Int64 // Unix seconds of the last warning about a rewritten path
}

// CaddyModule implements [caddy.Module].
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers." + directiveName, New: func() caddy.Module { return new(Handler) }}
}

// Provision checks the configuration and joins the app.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.logger = ctx.Logger()
	module, err := ctx.App(appName)
	if err != nil {
		return err
	}
	app, ok := module.(*App)
	if !ok {
		return fmt.Errorf("app %s: unexpected type %T", appName, module)
	}
	h.core = app.core.core
	if h.mount, err = h.buildMount(app.env); err != nil {
		return err
	}
	h.warnProfiles(app)
	h.placeholders = auth.Placeholders(h.mount.Auth)
	h.api = h.buildAPI()
	srv, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return app.addMount(h.mount, srv)
}

func (h *Handler) buildMount(env environment) (*edge.Mount, error) {
	if err := h.checkCombination(); err != nil {
		return nil, err
	}
	if err := checkSessions(h.Sessions); err != nil {
		return nil, err
	}
	repl := caddy.NewReplacer()
	origins := make([]string, 0, len(h.Origins))
	for _, configured := range h.Origins {
		origin, err := resolve(repl, configured)
		if err != nil {
			return nil, fmt.Errorf("origins: %s cannot be resolved: %w", configured, err)
		}
		if origin == "" {
			continue
		}
		if err := checkOrigin(origin); err != nil {
			return nil, err
		}
		origins = append(origins, origin)
	}
	policy, err := auth.ParseOrigins(origins...)
	if err != nil {
		return nil, err
	}
	if policy.Any() {
		// A placeholder may have become "*" only now.
		if err := (&Handler{Auth: h.Auth, Origins: origins}).checkCombination(); err != nil {
			return nil, err
		}
	}
	rules, err := authBuilder{repl: repl, env: env, logger: h.logger}.build(h.Auth)
	if err != nil {
		return nil, err
	}
	_, open := rules.(auth.Off)
	return &edge.Mount{
		Auth: rules, Profiles: slices.Clone(h.Profiles),
		Shared:  h.Sessions == sessionsShared || h.Sessions == "" && open,
		Origins: policy, Page: h.Page == nil || *h.Page,
	}, nil
}

// warnProfiles names profiles of rules that no gateway serves. They are no error:
// chats of a profile stay readable when its gateway is taken away.
func (h *Handler) warnProfiles(app *App) {
	for _, rule := range h.Auth {
		names := slices.Clone(rule.Profiles)
		for _, user := range slices.Sorted(maps.Keys(rule.Users)) {
			names = append(names, rule.Users[user]...)
		}
		for _, name := range names {
			if _, ok := app.settings.Gateways[name]; !ok && auth.ValidProfile(name) {
				h.logger.Warn("auth: a rule names a profile without a gateway",
					zap.String("rule", rule.Type), zap.String("profile", name), zap.String("configured", app.profileList()))
			}
		}
	}
}

func (h *Handler) buildAPI() http.Handler {
	config := httpapi.Config{
		Sessions: h.core.Sessions(),
		Authenticate: func(r *http.Request) (*auth.Principal, error) {
			return h.core.Authenticate(r.Context(), h.mount, h.credentials(r))
		},
		Status:             h.core.Status,
		Health:             func(ctx context.Context) any { return h.core.Health(ctx) },
		Profiles:           h.core.Profiles,
		Features:           func(*auth.Principal) any { return noFeatures },
		Origins:            h.mount.Origins,
		TrustForwardedHost: fromTrustedProxy,
		Observer:           processMetrics(),
		Logger:             h.logger,
	}
	if h.mount.Page {
		config.Page = page.Handler()
	}
	return httpapi.New(config)
}

// noFeatures tells the page what it need not offer (caddy-surface 6).
var noFeatures = map[string]any{"yolo": false, "uploads": false, "bridge": false, "commands": []string{}}

// ServeHTTP implements [caddyhttp.MiddlewareHandler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	switch path := r.URL.Path; {
	case path == socketPath || path == strings.TrimSuffix(socketPath, "/"):
		h.serveSocket(w, r)
	case path == pagePath && h.mount.Page:
		redirectToPage(w, r)
	case httpapi.Claims(path, h.mount.Page):
		h.serveAPI(w, r)
	default:
		h.warnRewritten(r)
		return next.ServeHTTP(w, r)
	}
	return nil
}

const (
	socketPath = "/socket.io/"
	pagePath   = "/chat-run"
)

// redirectToPage answers with a relative address, because the handler cannot know
// the prefix it is mounted under.
func redirectToPage(w http.ResponseWriter, r *http.Request) {
	target := strings.TrimPrefix(pagePath, "/") + "/"
	if r.URL.RawQuery != "" {
		target += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusPermanentRedirect)
}

func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case pagePath + "/health", pagePath + "/health/live":
		// They say themselves what is not ready.
	default:
		if status := h.core.Status(); !isReady(status) {
			notReady(w, status)
			return
		}
	}
	h.api.ServeHTTP(w, r)
}

func (h *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	// What is open is served until it is closed, by the core that drains, too.
	status := h.core.Status()
	open := r.URL.Query().Has("sid") && status != httpapi.StatusStarting
	if !open && !isReady(status) {
		notReady(w, status)
		return
	}
	origin, ok := h.mount.Origins.Allowed(r, fromTrustedProxy(r))
	if !ok {
		writeJSON(w, http.StatusForbidden, `{"code":4,"message":"Forbidden"}`)
		return
	}
	h.mount.Origins.SetHeaders(w.Header(), origin)
	if r.Method == http.MethodOptions {
		preflight(w, r, origin)
		return
	}
	raw, _ := r.Context().Value(rawConnKey{}).(net.Conn)
	ip, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	h.core.ServeSocket(w, r, h.mount, edge.Request{
		Credentials: h.credentials(r), RawConn: raw, ClientIP: ip, Origin: origin,
	})
}

// isReady reports whether a core in this state takes requests.
func isReady(status string) bool {
	return status == httpapi.StatusOK || status == httpapi.StatusDegraded
}

func notReady(w http.ResponseWriter, status string) {
	text := "the server is starting or shutting down; try again in a moment"
	if status == httpapi.StatusUnavailable {
		text = "the store does not answer; try again in a moment"
	}
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusServiceUnavailable, `{"error":"`+text+`","code":"not_ready"}`)
}

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A failed write means that the client is gone; there is nobody to tell.
	_, _ = w.Write([]byte(body))
}

// preflight answers the question a browser asks before a request from a page of
// another origin.
func preflight(w http.ResponseWriter, r *http.Request, origin string) {
	if origin != "" {
		w.Header().Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			w.Header().Set("Access-Control-Allow-Headers", asked)
			w.Header().Add("Vary", "Access-Control-Request-Headers")
		}
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// credentials are what the request brought. They are copied: a connection
// outlives its handshake request.
func (h *Handler) credentials(r *http.Request) auth.Credentials {
	c := auth.Credentials{Token: auth.BearerToken(r.Header)}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || len(h.placeholders) == 0 {
		return c
	}
	c.Identity = make(map[string]string, len(h.placeholders))
	for _, placeholder := range h.placeholders {
		c.Identity[placeholder] = strings.Clone(repl.ReplaceAll(placeholder, ""))
	}
	return c
}

func fromTrustedProxy(r *http.Request) bool {
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// rewriteWarning is the least time between two warnings.
const rewriteWarning = time.Minute

// warnRewritten says so when a handshake reaches the handler under another path:
// a try_files in front has taken it for a page. The original path is not used
// instead, since rules for paths in front of the handler have seen the new one.
func (h *Handler) warnRewritten(r *http.Request) {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || original.URL == nil || original.URL.Path != socketPath || original.URL.Query().Get("EIO") != "4" {
		return
	}
	now, last := time.Now().Unix(), h.warned.Load()
	if now-last < int64(rewriteWarning/time.Second) || !h.warned.CompareAndSwap(last, now) {
		return
	}
	h.logger.Warn("a Socket.IO handshake was rewritten before it got here, so it is not answered; put try_files or rewrite inside a handle",
		zap.String("original_path", socketPath), zap.String("path", r.URL.Path))
}

type rawConnKey struct{}

// keepRawConn keeps the connection below the server's wrappers. One that Hijack
// returns holds request and response in memory for as long as it is open.
func keepRawConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, rawConnKey{}, conn)
}

// Interface guards
var (
	_ caddy.Module                = (*Handler)(nil)
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)

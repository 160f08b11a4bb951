package httpapi

import "net/http"

// Claims reports whether a path, as the mount sees it, belongs to the handler;
// page says whether the mount shows the page.
func Claims(path string, page bool) bool {
	switch path {
	case "/chat-run", prefix:
		return page
	case agentHealthPath:
		return true
	}
	return len(path) > len(prefix) && path[:len(prefix)] == prefix
}

const (
	prefix          = "/chat-run/"
	agentHealthPath = "/api/health/agent"
)

// New returns the handler for the paths that Claims names.
func New(cfg Config) http.Handler {
	return newAPI(cfg)
}

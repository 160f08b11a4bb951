package auth

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AnyOrigin in a list of origins admits every web page.
const AnyOrigin = "*"

// OriginPolicy says from which web pages requests are accepted. Browsers open
// WebSockets to any host and do not ask first, so each handshake is checked. The
// zero value admits the same origin, and requests without an Origin.
type OriginPolicy struct {
	listed []string
	any    bool
}

// ParseOrigins makes a policy of origins such as https://chat.example.com, or "*".
func ParseOrigins(origins ...string) (OriginPolicy, error) {
	var o OriginPolicy
	for _, s := range origins {
		if s == AnyOrigin {
			o.any = true
			continue
		}
		u, ok := parseOrigin(s)
		if !ok {
			return OriginPolicy{}, fmt.Errorf("origins: %q is not an origin, for example https://chat.example.com", s)
		}
		o.listed = append(o.listed, u.origin())
	}
	return o, nil
}

// Any reports whether every web page is admitted.
func (o OriginPolicy) Any() bool { return o.any }

// Allowed reports whether a request may be served. trustedForwardedHost says that
// the request came through a proxy that is trusted to set X-Forwarded-Host. origin
// is the value for Access-Control-Allow-Origin; it is empty where none is needed:
// for the same origin and for requests without an Origin. The origin "null" is
// refused by every policy: pages of any author can have it.
func (o OriginPolicy) Allowed(r *http.Request, trustedForwardedHost bool) (origin string, ok bool) {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return "", true
	}
	from, ok := parseOrigin(values[0])
	if !ok || len(values) > 1 {
		return "", false
	}
	if from.sameHost(r.Host) || trustedForwardedHost && from.sameHost(forwardedHost(r)) {
		return "", true
	}
	if o.any {
		return AnyOrigin, true
	}
	if slices.Contains(o.listed, from.origin()) {
		return values[0], true
	}
	return "", false
}

// SetHeaders tells the browser that the page of an allowed origin may read the
// answer; origin is the one that Allowed returned. Where the answer depends on
// the origin, caches are told so too.
func (o OriginPolicy) SetHeaders(h http.Header, origin string) {
	if len(o.listed) > 0 && !o.any {
		h.Add("Vary", "Origin")
	}
	if origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
	}
}

// forwardedHost returns the host that the first proxy was asked for.
func forwardedHost(r *http.Request) string {
	host, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Host"), ",")
	return strings.TrimSpace(host)
}

// webOrigin is a scheme with host and port, in the form that compares.
type webOrigin struct {
	scheme string
	host   string // lower case, without the default port of scheme
}

// parseOrigin reads scheme://host[:port]; one slash may follow.
func parseOrigin(s string) (webOrigin, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Hostname() == "" || u.User != nil ||
		strings.TrimPrefix(u.Path, "/") != "" || strings.ContainsAny(s, "?#*, ") {
		return webOrigin{}, false
	}
	return webOrigin{scheme: u.Scheme, host: trimPort(u.Host, u.Scheme)}, true
}

func (w webOrigin) origin() string { return w.scheme + "://" + w.host }

// sameHost compares host and port. The scheme does not take part: behind a proxy
// that ends TLS the server does not know it.
func (w webOrigin) sameHost(host string) bool {
	return host != "" && w.host == trimPort(host, w.scheme)
}

func trimPort(host, scheme string) string {
	host = strings.ToLower(host)
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	default:
		return host
	}
}

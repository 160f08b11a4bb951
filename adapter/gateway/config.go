package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Defaults of a [Config].
const (
	DefaultBaseURL         = "http://127.0.0.1:8642"
	DefaultConnectTimeout  = 10 * time.Second
	DefaultHeaderTimeout   = 60 * time.Second
	DefaultReadTimeout     = 10 * time.Minute
	DefaultProgressTimeout = 30 * time.Minute
	DefaultRecoverTimeout  = 10 * time.Minute
	DefaultMaxLine         = 16 << 20
)

// Config describes one gateway. Only BaseURL is required; zero durations and
// sizes stand for the defaults.
type Config struct {
	BaseURL string    // see ParseBaseURL
	Key     KeySource // nil: no key is sent
	// Headers go with every call, for access proxies in front of the gateway.
	// Authorization, Origin, Cookie and hop-by-hop names are refused.
	Headers http.Header

	ConnectTimeout  time.Duration // TCP and TLS
	HeaderTimeout   time.Duration // from the sent request to the reply's head
	ReadTimeout     time.Duration // silence: no byte at all (R5)
	ProgressTimeout time.Duration // only keep-alives (R5)
	RecoverTimeout  time.Duration // how long Recover polls

	MaxRuns int         // turns at a time, over all nodes; 0: as many as come. The engine keeps it
	Store   bool        // ask the gateway to keep responses (R6); needed for Recover
	Model   string      // sent when a request names none; "" sends no model (GW-41)
	TLS     *tls.Config // nil: the system's roots
	MaxLine int64       // ceiling of one line of a stream, bytes
	Logger  *zap.Logger // nil: no log
}

// ParseBaseURL reads a gateway address: an http or https URL, or host:port for
// http. A path prefix is kept (/p/work), trailing slashes are dropped, and ""
// is DefaultBaseURL. Credentials, a query and a fragment are errors (GW-49).
func ParseBaseURL(address string) (*url.URL, error) {
	address = strings.TrimSpace(address)
	if address == "" {
		address = DefaultBaseURL
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("gateway address is no URL: use http://host:port or https://host/prefix")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("gateway address has scheme %q: use http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("gateway address has no host")
	case u.User != nil:
		return nil, errors.New("gateway address holds credentials: use api_key or header instead")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("gateway address has a query: remove everything from the question mark on")
	case u.Fragment != "":
		return nil, errors.New("gateway address has a fragment: remove everything from the # on")
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/"), RawPath: strings.TrimRight(u.RawPath, "/")}, nil
}

// IsLoopback reports whether the address names this machine.
func IsLoopback(u *url.URL) bool {
	host := u.Hostname()
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

var refusedHeaders = map[string]bool{
	"Authorization": true, "Origin": true, "Cookie": true, "Host": true,
	"Connection": true, "Content-Length": true, "Content-Type": true, "Transfer-Encoding": true,
	"Upgrade": true, "Te": true, "Trailer": true, "Accept": true, "Accept-Encoding": true,
}

// checkHeaders returns a canonical copy of the extra headers.
func checkHeaders(extra http.Header) (http.Header, error) {
	out := make(http.Header, len(extra))
	for name, values := range extra {
		canonical := http.CanonicalHeaderKey(name)
		if refusedHeaders[canonical] {
			return nil, fmt.Errorf("gateway header %q is set by the edge itself: remove it", canonical)
		}
		out[canonical] = append(out[canonical], values...)
	}
	return out, nil
}

func (c Config) withDefaults() Config {
	setDefault(&c.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&c.HeaderTimeout, DefaultHeaderTimeout)
	setDefault(&c.ReadTimeout, DefaultReadTimeout)
	setDefault(&c.ProgressTimeout, DefaultProgressTimeout)
	setDefault(&c.RecoverTimeout, DefaultRecoverTimeout)
	if c.MaxLine <= 0 {
		c.MaxLine = DefaultMaxLine
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

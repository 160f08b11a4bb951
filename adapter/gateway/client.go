package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	idleConnTimeout = 30 * time.Second // below the gateway's, so that no turn meets a closing connection
	maxIdleConns    = 64
	callTimeout     = 15 * time.Second
	errorBodyTime   = 10 * time.Second
	maxErrorBody    = 64 << 10
	minHeaderSecret = 8 // shorter header values are words, not secrets
)

// Client talks to one gateway. It is safe for concurrent use and holds no lock
// during I/O. It never follows redirects and uses no HTTP proxy, so the key
// goes to the configured host only (R12).
type Client struct {
	cfg       Config
	base      *url.URL
	headers   http.Header
	transport *http.Transport
	key       atomic.Pointer[Key]
	bodyLimit atomic.Int64
	log       *zap.Logger
}

// New checks the configuration and returns a client. It makes no connection;
// an unreadable key source is not an error here but shows in Key.
func New(cfg Config) (*Client, error) {
	base, err := ParseBaseURL(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	headers, err := checkHeaders(cfg.Headers)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, base: base, headers: headers, log: cfg.Logger}
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 15 * time.Second}
	c.transport = &http.Transport{
		DialContext:           dialer.DialContext,
		TLSClientConfig:       cfg.TLS.Clone(),
		TLSHandshakeTimeout:   cfg.ConnectTimeout,
		ResponseHeaderTimeout: cfg.HeaderTimeout,
		DisableCompression:    true,
		MaxIdleConns:          maxIdleConns,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       idleConnTimeout,
	}
	c.bodyLimit.Store(bodyLimit)
	c.reloadKey()
	return c, nil
}

// Close closes idle connections. Running turns are ended by their contexts.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// BaseURL returns a copy of the gateway's address. It is for logs and admin
// pages, not for chat users.
func (c *Client) BaseURL() *url.URL {
	u := *c.base
	return &u
}

// KeySource names where the current key came from, "" if there is no key.
func (c *Client) KeySource() string { return c.currentKey().Source }

// StoresResponses reports whether turns ask the gateway to keep them, so that
// Recover and DeleteResponse make sense.
func (c *Client) StoresResponses() bool { return c.cfg.Store }

func (c *Client) currentKey() Key {
	if key := c.key.Load(); key != nil {
		return *key
	}
	return Key{}
}

// reloadKey reads the key again and reports whether it changed. A source that
// cannot be read leaves the key as it was.
func (c *Client) reloadKey() bool {
	if c.cfg.Key == nil {
		return false
	}
	key, err := c.cfg.Key()
	if err != nil {
		c.log.Warn("gateway key cannot be read", zap.String("error", c.Redact(err.Error())))
		return false
	}
	old := c.key.Swap(&key)
	return old == nil || old.Value != key.Value
}

// Redact is [Redact] with this client's key, address and header values masked
// as well.
func (c *Client) Redact(text string) string {
	secrets := []string{c.currentKey().Value}
	if strings.ContainsAny(c.base.Host, ".:") {
		secrets = append(secrets, c.base.Host)
	}
	for _, values := range c.headers {
		for _, value := range values {
			if len(value) >= minHeaderSecret {
				secrets = append(secrets, value)
			}
		}
	}
	return Redact(text, secrets...)
}

// request is one call to the gateway.
type request struct {
	method string
	path   string // below the base URL, escaped
	accept string
	body   []byte
	header http.Header // further headers
}

func (c *Client) newRequest(ctx context.Context, r request, key Key) (*http.Request, error) {
	target := *c.base
	target.Path, target.RawPath = joinPath(c.base, r.path)
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("build gateway request: %w", err)
	}
	for _, source := range []http.Header{c.headers, r.header} {
		for name, values := range source {
			req.Header[name] = values
		}
	}
	req.Header.Set("User-Agent", "hermes-edge")
	req.Header.Set("Accept", r.accept)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key.Value != "" {
		req.Header.Set("Authorization", "Bearer "+key.Value)
	}
	return req, nil
}

// joinPath appends an escaped path to the base, both ways URL stores it.
func joinPath(base *url.URL, path string) (plain, raw string) {
	raw = base.EscapedPath() + path
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return base.Path + path, ""
	}
	return plain, raw
}

// send makes one round trip. On a 401 it reads the key again and, if that
// brought another key, sends once more: the gateway decides 401 before it
// looks at the body. A reply other than 200 (and those in also) is an error.
func (c *Client) send(ctx context.Context, r request, also ...int) (*http.Response, *Error) {
	key := c.currentKey()
	resp, failure := c.attempt(ctx, r, key, also)
	if failure == nil || failure.Class != ClassUnauthorized {
		return resp, failure
	}
	c.reloadKey()
	if next := c.currentKey(); next.Value != key.Value {
		c.log.Info("gateway key changed, sending again", zap.String("source", next.Source))
		return c.attempt(ctx, r, next, also)
	}
	return nil, failure
}

func (c *Client) attempt(ctx context.Context, r request, key Key, also []int) (*http.Response, *Error) {
	resp, err := c.roundTrip(ctx, r, key)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || slices.Contains(also, resp.StatusCode) {
		return resp, nil
	}
	return nil, c.replyError(resp)
}

func (c *Client) roundTrip(ctx context.Context, r request, key Key) (*http.Response, *Error) {
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := c.newRequest(traced, r, key)
	if err != nil {
		return nil, &Error{Class: ClassBadRequest, Text: "The gateway address and path make no valid request", cause: err}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return nil, c.transportError(ctx, err, connected.Load())
	}
	return resp, nil
}

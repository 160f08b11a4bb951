package gateway

import (
	"context"
	"net/http"
	"time"
)

const (
	probeTimeout = 5 * time.Second
	maxProbeBody = 1 << 20
)

// Health is GET /health (gateway.md 6.1).
type Health struct {
	Status  string
	Version string // "" before 0.17
}

// Health asks the gateway whether it is there. A reply that is not a Hermes
// gateway's is ClassNotAGateway.
func (c *Client) Health(ctx context.Context) (Health, error) {
	health, failure := c.health(ctx)
	if failure != nil {
		return Health{}, failure
	}
	return health, nil
}

func (c *Client) health(ctx context.Context) (Health, *Error) {
	body, failure := c.call(ctx, request{method: http.MethodGet, path: "/health"}, maxProbeBody, probeTimeout)
	if failure != nil {
		return Health{}, failure
	}
	if string(rawString(member(body, "platform"))) != "hermes-agent" {
		return Health{}, &Error{Class: ClassNotAGateway, Status: http.StatusOK, Text: "What answers at the gateway address is not a Hermes gateway", Sent: true}
	}
	var d decoder
	var h Health
	h.Status, _ = d.text(member(body, "status"))
	h.Version, _ = d.text(member(body, "version"))
	h.Version = clip(oneLine(h.Version), 40)
	return h, nil
}

// Capabilities is GET /v1/capabilities (gateway.md 6.4).
type Capabilities struct {
	Model    string          // advertised name
	Features map[string]bool // flags that are present and not false
}

const maxFeatures = 256

// Capabilities reads the gateway's feature flags.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	caps, failure := c.capabilities(ctx)
	if failure != nil {
		return Capabilities{}, failure
	}
	return caps, nil
}

func (c *Client) capabilities(ctx context.Context) (Capabilities, *Error) {
	body, failure := c.call(ctx, request{method: http.MethodGet, path: "/v1/capabilities"}, maxProbeBody, probeTimeout)
	if failure != nil {
		return Capabilities{}, failure
	}
	var d decoder
	caps := Capabilities{Features: make(map[string]bool)}
	caps.Model, _ = d.text(member(body, "model"))
	features := openObject(member(body, "features"))
	for len(caps.Features) < maxFeatures {
		name, value, more := features.next()
		if !more {
			break
		}
		if s := string(value); s != "false" && s != "null" {
			caps.Features[string(name)] = true
		}
	}
	return caps, nil
}

const maxModels = 1000

// Models returns the model names of GET /v1/models: the advertised one first,
// then aliases (0.19+).
func (c *Client) Models(ctx context.Context) ([]string, error) {
	body, failure := c.call(ctx, request{method: http.MethodGet, path: "/v1/models"}, maxProbeBody, probeTimeout)
	if failure != nil {
		return nil, failure
	}
	var d decoder
	var names []string
	list := openArray(member(body, "data"))
	for len(names) < maxModels {
		item, more := list.next()
		if !more {
			break
		}
		if id, ok := d.text(member(item, "id")); ok && id != "" {
			names = append(names, id)
		}
	}
	return names, nil
}

// probeStatus returns the status of a GET or HEAD, with or without the key.
func (c *Client) probeStatus(parent context.Context, method, path string, withKey bool) (int, *Error) {
	ctx, cancel := context.WithTimeoutCause(parent, probeTimeout, errCallTimeout)
	defer cancel()
	key := Key{}
	if withKey {
		key = c.currentKey()
	}
	resp, failure := c.roundTrip(ctx, request{method: method, path: path, accept: "application/json"}, key)
	if failure != nil {
		return 0, failure
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

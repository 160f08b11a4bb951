package caddymodule

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
)

// Checks of values that the Caddyfile and JSON share. Their errors go behind a
// prefix that names the place.

const (
	transportAuto      = "auto"
	transportResponses = "responses"
)

func checkProfile(name string) error {
	if !auth.ValidProfile(name) {
		return fmt.Errorf("%q is not a profile name: want up to 64 of a-z, 0-9, _ and -, the first a letter or digit", name)
	}
	return nil
}

func checkAddress(address string) error {
	if hasPlaceholder(address) {
		return nil
	}
	if !isAddress(address) {
		return fmt.Errorf("%q is not an address: want http, https or host:port, without credentials, query or fragment", withoutCredentials(address))
	}
	return nil
}

// isAddress is stricter than [gateway.ParseBaseURL] in one point: a bare host
// needs a port, so that a forgotten address does not become a host's name.
func isAddress(address string) bool {
	u, err := gateway.ParseBaseURL(address)
	if err != nil || address == "" {
		return false
	}
	return strings.Contains(address, "://") || u.Port() != ""
}

// withoutCredentials makes an address fit for an error text.
func withoutCredentials(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		scheme, _, found := strings.Cut(address, "://")
		if !found {
			return "…" + address[at:]
		}
		return scheme + "://…" + address[at:]
	}
	return address
}

func checkTransport(transport string) error {
	switch transport {
	case transportAuto, transportResponses:
		return nil
	case "runs", "completions":
		return fmt.Errorf("transport %q is not part of this version: use auto or responses", transport)
	}
	return fmt.Errorf("transport %q is unknown (auto, responses, runs, completions)", transport)
}

func checkHeader(name, value string) error {
	if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return fmt.Errorf("header %q is not an HTTP header", name)
	}
	if slices.Contains([]string{"Authorization", "Host", "Origin", "Cookie"}, http.CanonicalHeaderKey(name)) {
		return fmt.Errorf("header %s is set by the edge itself (the gateway's key is the option api_key)", http.CanonicalHeaderKey(name))
	}
	return nil
}

func checkModels(m *Models) error {
	switch m.Mode {
	case "", edge.ModelsIgnore, edge.ModelsPass:
		if len(m.Map) > 0 {
			return errors.New("models: names are only for mode map")
		}
	case edge.ModelsMap:
		if len(m.Map) == 0 {
			return errors.New("models: map needs pairs of name and model, for example: models map fast gpt-5-mini")
		}
	default:
		return fmt.Errorf("models %q is unknown (ignore, pass, map)", m.Mode)
	}
	return nil
}

// checkOrigin accepts "*", or a scheme and host with nothing behind.
func checkOrigin(origin string) error {
	if origin == "*" || hasPlaceholder(origin) {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("origins: %q is not an origin: want scheme and host, for example https://chat.example.com", origin)
	}
	return nil
}

// Bounds of values. They keep a slip of the pen from becoming an outage; they are
// not advice.
const (
	minWait, maxWait           = 10 * time.Millisecond, 24 * time.Hour
	minMessage, maxMessage     = 1 << 10, 256 << 20
	minSendBuffer, maxSendBuf  = 4 << 10, 1 << 30
	maxCount                   = 1 << 30
	minRate, maxRate           = 0.1, 1e6
	minRetention, maxRetention = time.Minute, 100 * 365 * 24 * time.Hour
)

// checkLimits tests the set values of a JSON configuration.
func checkLimits(l *Limits) error {
	for _, c := range []struct {
		name  string
		value int
	}{
		{"connections", l.Connections}, {"connections_per_user", l.ConnectionsPerUser},
		{"sessions_watched", l.SessionsWatched}, {"queue_length", l.QueueLength}, {"runs_per_user", l.RunsPerUser},
	} {
		if err := inRange("limits: "+c.name, c.value, 0, maxCount); err != nil {
			return err
		}
	}
	if l.MessageSize != 0 {
		if err := sizeInRange("limits: message_size", l.MessageSize, minMessage, maxMessage); err != nil {
			return err
		}
	}
	if l.SendBuffer != 0 {
		if err := sizeInRange("limits: send_buffer", l.SendBuffer, minSendBuffer, maxSendBuf); err != nil {
			return err
		}
	}
	if l.EventRate != 0 {
		return inRange("limits: event_rate", l.EventRate, minRate, maxRate)
	}
	return nil
}

package gateway

import (
	"net/url"
	"strings"

	"github.com/hermes-edge/hermes-edge/adapter/hermeshome"
)

// Key is a gateway key and where it came from. Printing it shows the source only.
type Key struct {
	Value  string
	Source string // for health pages: "api_key", a variable's or file's name; "" if there is no key
}

// String returns the source, never the key.
func (k Key) String() string { return k.Source }

// GoString returns the source, never the key.
func (k Key) GoString() string { return k.Source }

// KeySource reads the key. It is called at start and again after a 401, from
// any goroutine, and must not block for long.
type KeySource func() (Key, error)

// StaticKey is a key that never changes.
func StaticKey(value, source string) KeySource {
	key := Key{Value: strings.TrimSpace(value), Source: source}
	if key.Value == "" {
		key.Source = ""
	}
	return func() (Key, error) { return key, nil }
}

// KeyLookup says where FindKey looks.
type KeyLookup struct {
	Configured string                   // the api_key option
	Getenv     func(name string) string // required
	Home       hermeshome.Home          // zero: no file is read
	Profile    string
	BaseURL    *url.URL // the home's file is read only for a loopback address
}

// FindKey is the default order of caddy-surface 1.1: the option, then
// HERMES_WEBUI_GATEWAY_API_KEY, then API_SERVER_KEY, then the profile's .env.
func FindKey(where KeyLookup) KeySource {
	return func() (Key, error) {
		if value := strings.TrimSpace(where.Configured); value != "" {
			return Key{Value: value, Source: "api_key"}, nil
		}
		for _, name := range []string{"HERMES_WEBUI_GATEWAY_API_KEY", hermeshome.GatewayKeyName} {
			if value := strings.TrimSpace(where.Getenv(name)); value != "" {
				return Key{Value: value, Source: name}, nil
			}
		}
		if where.Home.Dir() == "" || where.BaseURL == nil || !IsLoopback(where.BaseURL) {
			return Key{}, nil
		}
		value, err := where.Home.GatewayKey(where.Profile)
		if err != nil || value == "" {
			return Key{}, err
		}
		return Key{Value: value, Source: "hermes home .env"}, nil
	}
}

package caddymodule

import (
	"encoding/json"
	"errors"

	"github.com/caddyserver/caddy/v2"
)

// Gateway is one Hermes Gateway. It serves one profile.
type Gateway struct {
	// Address of the gateway: an http or https URL, or host:port for http. A path
	// prefix is kept. Exactly one for now. Placeholders are allowed.
	Addresses []string `json:"addresses,omitempty"`

	// The gateway's API key. Placeholders are allowed and recommended, since the
	// configuration can be read over the admin endpoint. Default: the variables
	// HERMES_WEBUI_GATEWAY_API_KEY and API_SERVER_KEY, then, for a gateway on this
	// machine, the .env file of its hermes home.
	APIKey string `json:"api_key,omitempty"`

	// How runs reach the gateway: "auto" or "responses". Default: "auto".
	Transport string `json:"transport,omitempty"`

	// The model that requests name when a run names none. Default: none, the
	// gateway decides. Placeholders are allowed.
	Model string `json:"model,omitempty"`

	// Headers sent with every call, for an access proxy in front of the gateway.
	// Placeholders are allowed in the values.
	Headers map[string][]string `json:"headers,omitempty"`

	// Time to connect, TLS included. Default: 10s.
	ConnectTimeout caddy.Duration `json:"connect_timeout,omitzero"`

	// A stream without any byte for this long is lost. Default: 10m, or
	// HERMES_WEBUI_GATEWAY_READ_TIMEOUT (seconds).
	ReadTimeout caddy.Duration `json:"read_timeout,omitzero"`

	// A stream with nothing but keep-alives for this long is given up. Default: 30m.
	ProgressTimeout caddy.Duration `json:"progress_timeout,omitzero"`

	// Runs at a time on this gateway, from all nodes together; what is more waits in
	// order. 0 is as many as come, until the gateway says that it is full. Default:
	// 10, which is what gateways take by themselves.
	MaxRuns *int `json:"max_runs,omitempty"`

	// Whether the gateway is asked to keep responses, so that a lost stream can be
	// recovered. Default: false.
	Store bool `json:"store,omitempty"`

	// TLS towards the gateway.
	TLS *GatewayTLS `json:"tls,omitempty"`
}

// GatewayTLS says how an https gateway is trusted.
type GatewayTLS struct {
	// PEM files with the certificates to trust. Default: the system's.
	CA []string `json:"ca,omitempty"`

	// Accept any certificate. Anybody on the way can then read the gateway's key;
	// for experiments only. Default: false.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// Models says what the model a client names in a run may do.
type Models struct {
	// "ignore" (the gateway's own model is used), "pass" (sent on as it is), or
	// "map" (only the names of Map). Default: "ignore".
	Mode string `json:"mode,omitempty"`

	// Model by the name that clients use; only with mode "map".
	Map map[string]string `json:"map,omitempty"`
}

// Limits bound the process. Zero stands for the default.
type Limits struct {
	// Largest message of a client in bytes, announced as maxPayload. Default: 1 MB.
	MessageSize int64 `json:"message_size,omitzero"`
	// Connections in all. Default: no limit.
	Connections int `json:"connections,omitzero"`
	// Connections of one user. Default: 64.
	ConnectionsPerUser int `json:"connections_per_user,omitzero"`
	// Bytes that may wait for one slow connection. Default: 256 KiB.
	SendBuffer int64 `json:"send_buffer,omitzero"`
	// Events per second that one connection may send. Default: 50.
	EventRate float64 `json:"event_rate,omitzero"`
	// Sessions that one connection may follow. Default: 256.
	SessionsWatched int `json:"sessions_watched,omitzero"`
	// Messages that may wait in one session. Default: 32.
	QueueLength int `json:"queue_length,omitzero"`
	// Runs of one user at a time. Default: no limit.
	RunsPerUser int `json:"runs_per_user,omitzero"`
}

// Timeouts of connections and of the exit. Zero stands for the default.
type Timeouts struct {
	// Time between two heartbeats. Default: 25s.
	PingInterval caddy.Duration `json:"ping_interval,omitzero"`
	// Time for the answer to a heartbeat. Default: 90s.
	PingTimeout caddy.Duration `json:"ping_timeout,omitzero"`
	// Time for a connection to join a namespace. Default: 45s.
	Connect caddy.Duration `json:"connect,omitzero"`
	// Time for the change from polling to WebSocket. Default: 10s.
	Upgrade caddy.Duration `json:"upgrade,omitzero"`
	// How long a lost connection can be taken up again. Default: 2m.
	Recovery caddy.Duration `json:"recovery,omitzero"`
	// Bound of the whole exit. The service manager must wait longer. Default: 4s.
	Drain caddy.Duration `json:"drain,omitzero"`
}

// Types of an [AuthRule].
const (
	ruleToken     = "token"
	ruleJWT       = "jwt"
	ruleCaddyUser = "caddy_user"
	ruleOff       = "off"
)

var ruleTypes = []string{ruleToken, ruleJWT, ruleCaddyUser, ruleOff}

// AuthRule admits users. Which fields count depends on the type.
type AuthRule struct {
	// "token", "jwt", "caddy_user" or "off".
	Type string `json:"type"`

	// token: the user that the token stands for.
	User string `json:"user,omitempty"`
	// token: the secret, or sha256:<hex> of it. Placeholders are allowed.
	Token string `json:"token,omitempty"`

	// jwt: shared secrets (HS256, HS384, HS512). Placeholders are allowed. Default,
	// if there is no public key either: AUTH_JWT_SECRET, else AUTH_TOKEN.
	Secrets []string `json:"secrets,omitempty"`
	// jwt: PEM files with public keys or certificates.
	PublicKeys []string `json:"public_keys,omitempty"`
	// jwt: required issuer.
	Issuer string `json:"issuer,omitempty"`
	// jwt: accepted audiences.
	Audiences []string `json:"audiences,omitempty"`
	// jwt: claims that must have these values.
	Require map[string]string `json:"require,omitempty"`
	// jwt: claim with the user's name. Default: "sub".
	UserClaim string `json:"user_claim,omitempty"`
	// jwt: claim with the user's profiles. Default: "profiles".
	ProfilesClaim string `json:"profiles_claim,omitempty"`
	// jwt: profiles by user name; counts before the claim.
	Users map[string][]string `json:"users,omitempty"`
	// jwt: tolerated difference of clocks. Default: 30s.
	Leeway caddy.Duration `json:"leeway,omitzero"`

	// caddy_user: placeholder with the user's name, set by a directive in front.
	// Default: {http.auth.user.id}.
	Placeholder string `json:"placeholder,omitempty"`

	// Profiles of whom this rule admits; "*" is all of them. Default: "default".
	// With caddy_user placeholders are allowed, split at commas and spaces.
	Profiles []string `json:"profiles,omitempty"`
	// Who of them is an administrator (all profiles, all sessions, detailed
	// health): true for everybody, or with jwt the claims that say so.
	Admin AdminGrant `json:"admin,omitzero"`
}

// AdminGrant says who becomes an administrator. In JSON it is true, or an object
// of claims and the values they must have.
type AdminGrant struct {
	All    bool
	Claims map[string]string
}

// IsZero reports whether nobody becomes an administrator.
func (g AdminGrant) IsZero() bool { return !g.All && len(g.Claims) == 0 }

// MarshalJSON implements [json.Marshaler].
func (g AdminGrant) MarshalJSON() ([]byte, error) {
	if len(g.Claims) > 0 {
		return json.Marshal(g.Claims)
	}
	return json.Marshal(g.All)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (g *AdminGrant) UnmarshalJSON(b []byte) error {
	var all bool
	if json.Unmarshal(b, &all) == nil {
		*g = AdminGrant{All: all}
		return nil
	}
	var claims map[string]string
	if err := json.Unmarshal(b, &claims); err != nil {
		return errors.New("admin is true, or an object of claims and their values")
	}
	*g = AdminGrant{Claims: claims}
	return nil
}

package caddymodule

import "github.com/caddyserver/caddy/v2"

// Redis is where several nodes share sessions, runs and the access token.
type Redis struct {
	// Addresses: redis://[user[:password]@]host[:port][/db], rediss:// for TLS, or
	// unix:///path of a server on this machine. One for a single server; for a
	// sentinel or cluster those of some of its members. Placeholders are allowed.
	Addresses []string `json:"addresses,omitempty"`

	// "standalone", "sentinel" or "cluster". Default: "sentinel" if there is a
	// master, else "standalone".
	Mode string `json:"mode,omitempty"`

	// sentinel: the name of the monitored master.
	Master string `json:"master,omitempty"`

	// ACL user and password, where the address has none. Placeholders are allowed and
	// recommended, since the configuration can be read over the admin endpoint.
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`

	// sentinel: user and password of the sentinels themselves. Placeholders are
	// allowed.
	SentinelUsername string `json:"sentinel_username,omitempty"`
	SentinelPassword string `json:"sentinel_password,omitempty"`

	// Begin of all keys and channels. Nodes with equal prefixes belong together.
	// Default: "hermes:".
	Prefix string `json:"prefix,omitempty"`

	// Time for one answer, and for a connection. Default: 1s.
	Timeout caddy.Duration `json:"timeout,omitzero"`

	// What the acceptance and the end of a run wait for beside the server's own
	// answer: "none", or "replica" (the word of one replica, for at most 50 ms; then
	// a failover loses less). Default: "none".
	Durability string `json:"durability,omitempty"`

	// TLS towards rediss:// addresses.
	TLS *RedisTLS `json:"tls,omitempty"`
}

// RedisTLS says how a Redis server is trusted, and how this node shows itself.
type RedisTLS struct {
	// PEM files with the certificates to trust. Default: the system's.
	CA []string `json:"ca,omitempty"`

	// PEM files of the certificate and the key that this node shows.
	ClientCertificate string `json:"client_certificate,omitempty"`
	ClientKey         string `json:"client_key,omitempty"`

	// The name that the server's certificate must have. Default: the address's host.
	ServerName string `json:"server_name,omitempty"`

	// Accept any certificate. Anybody on the way can then read all chats; for
	// experiments only. Default: false.
	InsecureSkipVerify bool `json:"insecure_skip_verify,omitempty"`
}

// Node is this process among the nodes that share a Redis.
type Node struct {
	// Name in logs and health answers; a random part is added to it. A new name
	// counts from the next start. Placeholders are allowed. Default: a random name.
	Name string `json:"name,omitempty"`

	// host:port where other nodes reach this one, which then forward requests of
	// long-polling clients here, or "off". Placeholders are allowed. Default: a free
	// port of the address from which this node reaches Redis.
	Advertise string `json:"advertise,omitempty"`
}

package store

import (
	"context"
	"time"
)

// Shared is a store that several nodes use at once.
type Shared interface {
	Store
	Secrets
	Nodes

	// Available reports whether the store has answered lately. It never blocks.
	Available() bool
	// Problems says what an operator should change at the servers although they
	// answer, one line each.
	Problems(ctx context.Context) ([]string, error)
}

// Secrets are values that all nodes must agree on.
type Secrets interface {
	// Secret sets a value if there is none and answers the one that stands.
	Secret(ctx context.Context, name, candidate string) (string, error)
	// ReplaceSecret sets a value whether there is one or not.
	ReplaceSecret(ctx context.Context, name, value string) error
}

// Node is what nodes know of each other.
type Node struct {
	Name        string
	Address     string   // host:port where other nodes reach it; empty: they do not
	Fingerprint string   // SHA-256 of its certificate there, hexadecimal
	Version     string   // of the program
	Runs        int      // active runs
	Caps        []string // executor classes that it can carry now
}

// Kinds of notices.
const (
	NoticeKick = "kick" // Subject is a connection id: it is connected elsewhere now
	NoticeWork = "work" // Subject is a session id that needs a node
)

// Notice is a message to one node. It is a hint and may be lost.
type Notice struct {
	Kind    string
	Subject string
}

// Nodes are the nodes that live.
type Nodes interface {
	// Announce writes a node's record, which is forgotten after ttl.
	Announce(ctx context.Context, n Node, ttl time.Duration) error
	// Resign removes it.
	Resign(ctx context.Context, name string) error
	// LookupNode answers a living node, false if there is none of that name.
	LookupNode(ctx context.Context, name string) (Node, bool, error)
	// LiveNodes answers all living nodes, by name.
	LiveNodes(ctx context.Context) ([]Node, error)
	// Notify sends a notice to a node.
	Notify(ctx context.Context, node string, n Notice) error
	// OnNotice has f called for each notice to this node, one at a time; f must
	// not block. It is called once, before the first Announce.
	OnNotice(f func(Notice))
}

package redisstore

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Mode says what the addresses are.
type Mode string

// Modes of a Redis deployment.
const (
	Standalone Mode = "standalone"
	Sentinel   Mode = "sentinel" // Addrs are sentinels
	Cluster    Mode = "cluster"  // Addrs are some of the cluster's nodes
)

// Options configure a Store. ParseURL fills those that say where Redis is.
type Options struct {
	Mode             Mode     // empty: Standalone
	Addrs            []string // host:port; Standalone: also the path of a Unix socket
	Master           string   // Sentinel: name of the monitored master
	Username         string   // ACL user; empty: the default user
	Password         string
	SentinelUsername string
	SentinelPassword string
	DB               int         // Cluster has 0 only
	TLS              *tls.Config // nil: plain TCP

	Prefix    string        // of all keys and channels, without braces; empty: "hermes:"
	Node      string        // name of this node; needed
	Logger    *zap.Logger   // nil: no log
	Limits    store.Limits  // zero value: the defaults
	Retention time.Duration // idle sessions are removed after this time; 0: 30 days; negative: never

	// Durability: what acceptance and end of a run wait for.
	Durability Durability
	Observer   Observer // nil: none

	Timeout     time.Duration // of one call; 0: 1 s
	DialTimeout time.Duration // 0: 1 s
	PoolSize    int           // connections per shard; 0: 16
	// BreakAfter is how long nothing may be answered before calls fail at once; 0:
	// 300 ms. Only tests on a slow machine need more.
	BreakAfter time.Duration

	probeInterval time.Duration // of tests; 0: 5 s
	unpiped       bool          // of benchmarks: each call is sent by itself
}

const (
	defaultPrefix    = "hermes:"
	defaultTimeout   = time.Second
	defaultPool      = 16
	defaultRetention = 30 * 24 * time.Hour
	poolTimeout      = 300 * time.Millisecond

	// expiryMargin is how much longer the other keys live than their root, so that
	// no half session is seen.
	expiryMargin = time.Minute
	// purgedLog is how long the last entries of a deleted session can be read.
	purgedLog = time.Minute
	// maxAttempts bounds how often a run that was never sent is begun again.
	maxAttempts = 2
	// readEntries and readBytes bound one ReadLog answer (contract 4.2), readChunk
	// what a script looks at before it counts bytes.
	readEntries = 256
	readBytes   = 512 << 10
	readChunk   = 32
)

func (o *Options) complete() error {
	if o.Mode == "" {
		o.Mode = Standalone
	}
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Limits == (store.Limits{}) {
		o.Limits = store.DefaultLimits()
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultTimeout
	}
	if o.PoolSize == 0 {
		o.PoolSize = defaultPool
	}
	switch {
	case o.Retention == 0:
		o.Retention = defaultRetention
	case o.Retention < 0:
		o.Retention = 0
	}
	return o.check()
}

func (o *Options) check() error {
	switch {
	case len(o.Addrs) == 0:
		return errors.New("redis: no address given")
	case o.Mode == Standalone && len(o.Addrs) != 1:
		return errors.New("redis: several addresses need redis+sentinel or redis+cluster")
	case o.Mode == Sentinel && o.Master == "":
		return errors.New("redis: the name of the master is missing, e.g. redis+sentinel://host:26379/mymaster")
	case o.Mode == Cluster && o.DB != 0:
		return errors.New("redis: a cluster has database 0 only")
	case o.Mode != Standalone && o.Mode != Sentinel && o.Mode != Cluster:
		return fmt.Errorf("redis: unknown mode %q", o.Mode)
	case o.Durability != DurabilityServer && o.Durability != DurabilityReplica:
		return fmt.Errorf("redis: unknown durability %q, want %s or none", o.Durability, DurabilityReplica)
	case o.Node == "":
		return errors.New("redis: the node has no name")
	case strings.ContainsAny(o.Prefix, "{} "):
		return errors.New("redis: the key prefix must not contain braces or spaces")
	case o.Timeout < 0 || o.DialTimeout < 0 || o.PoolSize < 0:
		return errors.New("redis: timeouts and pool size must not be negative")
	}
	return nil
}

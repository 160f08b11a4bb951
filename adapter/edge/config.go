package edge

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/metrics"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

// dataFileName is the store's file in the data directory.
const dataFileName = "hermes-edge.db"

// Deps are what a core needs from the process. Nil fields stand for "none".
type Deps struct {
	Logger  *zap.Logger
	Metrics *metrics.Metrics
	// Node is the name that the operator gave to this process, for people; a random
	// part is added to it, so that no two processes are ever taken for one.
	Node string
}

// Settings are one generation of configuration. They are not modified after
// Attach. Defaults are the caller's business: see [DefaultLimits] and
// [DefaultTimeouts].
type Settings struct {
	DataDir    string              // absolute; holds the data file and the access token
	Redis      *redisstore.Options // where nodes share their data; nil: the data file. Node and what follows is the core's business
	Node       Node
	Gateways   map[string]gateway.Config // by profile
	HermesHome string
	Models     ModelPolicy
	Retention  time.Duration // since last activity; 0 = forever
	Limits     Limits
	Timeouts   Timeouts
	Mounts     []*Mount // all handlers of this configuration
	NeedsToken bool     // a mount relies on the generated access token
}

// AdvertiseOff is the Advertise of a node that others must not reach.
const AdvertiseOff = "off"

// Node is this process among those that share a store.
type Node struct {
	Name      string // see [Deps]; a new name counts from the next core on
	Advertise string // host:port where other nodes reach this one; empty: found out; or AdvertiseOff
}

// Model policies (ruling R13).
const (
	ModelsIgnore = "ignore" // the gateway's configured model serves every run
	ModelsPass   = "pass"   // the model asked for goes to the gateway
	ModelsMap    = "map"    // only models of the map are passed, translated
)

// ModelPolicy says what the model that a client asks for may do.
type ModelPolicy struct {
	Mode string            // ModelsIgnore (also ""), ModelsPass or ModelsMap
	Map  map[string]string // ModelsMap: asked for → sent
}

// Limits bound the process (caddy-surface 2.3).
type Limits struct {
	MessageSize        int64   // bytes of one client message, announced as maxPayload
	Connections        int     // 0 = none
	ConnectionsPerUser int     // 0 = none
	SendBuffer         int     // bytes per connection
	EventRate          float64 // events per second and connection; 0 = none
	SessionsWatched    int     // per connection
	QueueLength        int     // waiting messages per session
	RunsPerUser        int     // 0 = none
}

// DefaultLimits returns the limits of caddy-surface 2.3.
func DefaultLimits() Limits {
	return Limits{
		MessageSize: 1_000_000, ConnectionsPerUser: 64, SendBuffer: 256 << 10,
		EventRate: 50, SessionsWatched: 256, QueueLength: 32,
	}
}

// Timeouts of connections and of the end of the process (caddy-surface 2.3).
type Timeouts struct {
	PingInterval time.Duration
	PingTimeout  time.Duration
	Connect      time.Duration // from the transport's opening to the namespace CONNECT
	Upgrade      time.Duration
	Recovery     time.Duration // connection state recovery after a loss; 0 = off
	Drain        time.Duration
}

// DefaultTimeouts returns the timeouts of caddy-surface 2.3.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		PingInterval: 25 * time.Second, PingTimeout: 90 * time.Second, Connect: 45 * time.Second,
		Upgrade: 10 * time.Second, Recovery: 2 * time.Minute, Drain: 4 * time.Second,
	}
}

// Mount is one handler: who may come in there. Mounts are compared by their
// rules' fingerprints, so an equal mount of the next configuration keeps the
// connections of this one.
type Mount struct {
	Auth     auth.Authenticator // nil: the generated access token
	Profiles []string           // ceiling, nil = all
	Shared   bool               // sessions of a profile are shared by its users
	Origins  auth.OriginPolicy
	Page     bool
}

// Request is what the web server knows of a handshake.
type Request struct {
	// Credentials as found in the request: bearer token and Identity. The profile
	// of the handshake query is added here.
	Credentials auth.Credentials
	RawConn     net.Conn // connection below the server's wrappers, nil if unknown
	ClientIP    string   // for logs and limits
	Origin      string   // allowed cross origin to be echoed, empty: none
}

// DataFile returns the data file of a data directory.
func DataFile(dataDir string) string { return filepath.Join(dataDir, dataFileName) }

// CoreKey names the core of a data file; the path is made absolute by the caller.
func CoreKey(dataFile string) string { return "embedded:" + dataFile }

// CoreKey names the core of these settings: where the data is, not how it is
// reached (caddy-surface 7).
func (s *Settings) CoreKey() string {
	r := s.Redis
	if r == nil {
		return CoreKey(DataFile(s.DataDir))
	}
	return fmt.Sprintf("redis:%s:%s/%d:%s:%s", r.Mode,
		strings.Join(slices.Sorted(slices.Values(r.Addrs)), ","), r.DB, r.Master, r.Prefix)
}

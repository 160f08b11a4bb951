package caddymodule

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

const (
	redisStandalone = string(redisstore.Standalone)
	redisSentinel   = string(redisstore.Sentinel)
	redisCluster    = string(redisstore.Cluster)

	durabilityNone    = "none"
	durabilityReplica = string(redisstore.DurabilityReplica)

	defaultRedisPrefix = "hermes:"
	nodePrefix         = "node: "

	// maxRedisWait keeps one slow call from using up the lease of a run.
	maxRedisWait   = 5 * time.Second
	maxRedisPrefix = 64
)

// redis is nil where none is configured. No error holds an address, a user or a
// password.
func (b settingsBuilder) redis(r *Redis) (*redisstore.Options, error) {
	if r == nil {
		return nil, nil
	}
	o, err := b.redisOptions(r)
	if err != nil {
		return nil, fmt.Errorf("%s%w", redisPrefix, err)
	}
	return &o, nil
}

func (b settingsBuilder) redisOptions(r *Redis) (redisstore.Options, error) {
	var none redisstore.Options
	if err := r.check(); err != nil {
		return none, err
	}
	addresses := make([]string, 0, len(r.Addresses))
	for _, configured := range r.Addresses {
		address, err := resolveRequired(b.repl, configured)
		if err != nil {
			return none, errUnresolved("address", configured)
		}
		addresses = append(addresses, strings.Fields(address)...)
	}
	resolved := *r
	for _, value := range []struct {
		name string
		text *string
	}{
		{"username", &resolved.Username}, {"password", &resolved.Password},
		{"sentinel_username", &resolved.SentinelUsername}, {"sentinel_password", &resolved.SentinelPassword},
	} {
		text, err := resolve(b.repl, *value.text)
		if err != nil {
			return none, errUnresolved(value.name, *value.text)
		}
		*value.text = text
	}
	o, err := resolved.combine(addresses)
	if err != nil {
		return none, err
	}
	return o, resolved.TLS.load(o.TLS)
}

// placeholders are those that a text which may hold a secret can be quoted by.
var placeholders = regexp.MustCompile(`\{(?:env|file)\.[^{}]*\}`)

func errUnresolved(name, configured string) error {
	if named := placeholders.FindAllString(configured, -1); len(named) > 0 {
		return fmt.Errorf("%s: %s cannot be resolved, or is empty", name, strings.Join(named, ", "))
	}
	return fmt.Errorf("%s: a placeholder cannot be resolved", name)
}

// check tests what can be without resolving placeholders.
func (r *Redis) check() error {
	switch {
	case len(r.Addresses) == 0:
		return errors.New("missing address, for example redis://127.0.0.1:6379")
	case !slices.Contains([]string{"", redisStandalone, redisSentinel, redisCluster}, r.Mode):
		return fmt.Errorf("mode %q is unknown (standalone, sentinel, cluster)", r.Mode)
	case r.Master != "" && r.Mode != "" && r.Mode != redisSentinel:
		return errors.New("master is only for mode sentinel")
	case !slices.Contains([]string{"", durabilityNone, durabilityReplica}, r.Durability):
		return fmt.Errorf("durability %q is unknown (none, replica)", r.Durability)
	case strings.ContainsAny(r.Prefix, "{} \t\r\n") || len(r.Prefix) > maxRedisPrefix:
		return fmt.Errorf("prefix must not contain braces or spaces, nor be longer than %d characters", maxRedisPrefix)
	}
	if r.Timeout != 0 {
		if err := inRange("timeout", time.Duration(r.Timeout), minWait, maxRedisWait); err != nil {
			return err
		}
	}
	return r.TLS.check()
}

func (r *Redis) hasPlaceholders() bool {
	return slices.ContainsFunc(r.Addresses, hasPlaceholder)
}

// combine makes options of addresses and words; files are not read yet.
func (r *Redis) combine(addresses []string) (redisstore.Options, error) {
	wanted := redisstore.Mode(r.Mode)
	if wanted == "" && r.Master != "" {
		wanted = redisstore.Sentinel
	}
	var o redisstore.Options
	for i, address := range addresses {
		one, err := parseRedisURL(address, wanted)
		switch {
		case err != nil:
			return o, err
		case i == 0:
			o, wanted = one, one.Mode
		case one.DB != o.DB || one.Master != o.Master || one.Username != o.Username || one.Password != o.Password ||
			(one.TLS == nil) != (o.TLS == nil):
			return o, errors.New("the addresses differ in more than host and port")
		default:
			o.Addrs = append(o.Addrs, one.Addrs...)
		}
	}
	o.Prefix = cmp.Or(r.Prefix, defaultRedisPrefix)
	o.Timeout, o.DialTimeout = time.Duration(r.Timeout), time.Duration(r.Timeout)
	if r.Durability == durabilityReplica {
		o.Durability = redisstore.DurabilityReplica
	}
	return o, r.complete(&o)
}

// complete lays the words over what the addresses say.
func (r *Redis) complete(o *redisstore.Options) error {
	if r.Username != "" || r.Password != "" {
		if o.Username != "" || o.Password != "" {
			return errors.New("user and password stand in the address and as words: choose one")
		}
		o.Username, o.Password = r.Username, r.Password
	}
	if r.Master != "" {
		if o.Mode != redisstore.Sentinel {
			return errors.New("master is only for mode sentinel")
		}
		if o.Master != "" && o.Master != r.Master {
			return errors.New("the master stands in the address and as a word: choose one")
		}
		o.Master = r.Master
	}
	o.SentinelUsername, o.SentinelPassword = r.SentinelUsername, r.SentinelPassword
	switch {
	case o.Mode == redisstore.Sentinel && o.Master == "":
		return errors.New("mode sentinel needs the name of the master, for example: master mymaster")
	case o.Mode != redisstore.Sentinel && (r.SentinelUsername != "" || r.SentinelPassword != ""):
		return errors.New("sentinel_username and sentinel_password are only for mode sentinel")
	case o.Mode == redisstore.Standalone && len(o.Addrs) > 1:
		return errors.New("several addresses need mode sentinel or mode cluster")
	case o.Mode == redisstore.Cluster && o.DB != 0:
		return errors.New("a cluster has database 0 only")
	case r.TLS != nil && o.TLS == nil:
		return errors.New("the tls_ words need an address that begins with rediss://")
	}
	return nil
}

// parseRedisURL reads one address as that of a mode; the empty one is the address's
// own.
func parseRedisURL(address string, wanted redisstore.Mode) (redisstore.Options, error) {
	o, err := redisstore.ParseURL(address)
	switch {
	case err != nil:
		return o, addressError(err)
	case wanted == "" || wanted == o.Mode:
		return o, nil
	case o.Mode != redisstore.Standalone:
		return o, fmt.Errorf("mode %s does not fit an address of mode %s", wanted, o.Mode)
	case strings.HasPrefix(address, "unix:"):
		return o, fmt.Errorf("mode %s needs hosts, not a Unix socket", wanted)
	case wanted == redisstore.Cluster:
		o.Mode = wanted
		return o, nil
	}
	// Sentinels have another port by default.
	scheme, rest, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	s, err := redisstore.ParseURL(scheme + "+sentinel://" + rest + "/any")
	if err != nil {
		return o, addressError(err)
	}
	s.Master, s.DB = "", o.DB
	return s, nil
}

// addressError says which of the words the URL is.
func addressError(err error) error {
	return fmt.Errorf("address: %s", strings.TrimPrefix(err.Error(), "redis URL: "))
}

func (t *RedisTLS) isZero() bool {
	return len(t.CA) == 0 && t.ClientCertificate == "" && t.ClientKey == "" && t.ServerName == "" && !t.InsecureSkipVerify
}

func (t *RedisTLS) check() error {
	if t != nil && (t.ClientCertificate == "") != (t.ClientKey == "") {
		return errors.New("tls_client_auth needs a certificate and its key")
	}
	return nil
}

// load reads the certificates into the configuration of a rediss address.
func (t *RedisTLS) load(into *tls.Config) error {
	if t == nil {
		return nil
	}
	trust, err := (&GatewayTLS{CA: t.CA}).load()
	if err != nil {
		return err
	}
	into.RootCAs, into.ServerName, into.InsecureSkipVerify = trust.RootCAs, t.ServerName, t.InsecureSkipVerify
	if t.ClientCertificate == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(t.ClientCertificate, t.ClientKey)
	if err != nil {
		return fmt.Errorf("tls_client_auth: %w", err)
	}
	into.Certificates = []tls.Certificate{pair}
	return nil
}

// node resolves who this process is among the nodes.
func (b settingsBuilder) node(n *Node, r *Redis) (edge.Node, error) {
	if n == nil {
		return edge.Node{}, nil
	}
	name, err := resolve(b.repl, n.Name)
	if err != nil {
		return edge.Node{}, fmt.Errorf("%sname %s cannot be resolved: %w", nodePrefix, n.Name, err)
	}
	advertise, err := resolve(b.repl, n.Advertise)
	if err != nil {
		return edge.Node{}, fmt.Errorf("%sadvertise %s cannot be resolved: %w", nodePrefix, n.Advertise, err)
	}
	if name != "" {
		err = checkNodeName(name)
	}
	if advertise != "" {
		err = errors.Join(err, checkAdvertise(advertise))
		if r == nil {
			err = errors.Join(err, errors.New("advertise is only for nodes that share a Redis"))
		}
	}
	if err != nil {
		return edge.Node{}, fmt.Errorf("%s%w", nodePrefix, err)
	}
	return edge.Node{Name: name, Advertise: advertise}, nil
}

var nodeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,31}$`)

func checkNodeName(name string) error {
	if !hasPlaceholder(name) && !nodeName.MatchString(name) {
		return fmt.Errorf("%q is not a node name: want up to 32 of letters, digits, _ and -, the first a letter or digit", name)
	}
	return nil
}

func checkAdvertise(address string) error {
	if hasPlaceholder(address) || address == edge.AdvertiseOff {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.Atoi(port)
	if err != nil || bad != nil || host == "" || n < 1 || n > 65535 {
		return fmt.Errorf("advertise %q is not an address: want host:port that other nodes reach, or off", address)
	}
	return nil
}

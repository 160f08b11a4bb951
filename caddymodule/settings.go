package caddymodule

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/edge"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/hermeshome"
)

// settingsBuilder turns the configuration of the app into the settings of one
// generation: it checks, resolves placeholders and applies defaults.
type settingsBuilder struct {
	repl   *caddy.Replacer
	env    environment
	logger *zap.Logger
}

// build has no side effects but reading files that the configuration names.
func (b settingsBuilder) build(a *App) (edge.Settings, error) {
	dir, err := b.dataDir(a.DataDir)
	if err != nil {
		return edge.Settings{}, err
	}
	home, err := b.home(a.HermesHome)
	if err != nil {
		return edge.Settings{}, err
	}
	gateways, err := b.gateways(a.Gateways, home)
	if err != nil {
		return edge.Settings{}, err
	}
	s := edge.Settings{
		DataDir: dir, Gateways: gateways, HermesHome: home.Dir(),
		Models: edge.ModelPolicy{Mode: edge.ModelsIgnore},
		Limits: edge.DefaultLimits(), Timeouts: edge.DefaultTimeouts(),
	}
	if s.Redis, err = b.redis(a.Redis); err != nil {
		return edge.Settings{}, err
	}
	if s.Node, err = b.node(a.Node, a.Redis); err != nil {
		return edge.Settings{}, err
	}
	if s.Retention, err = retention(a.Retention, a.Redis); err != nil {
		return edge.Settings{}, err
	}
	if a.Models != nil {
		if err := checkModels(a.Models); err != nil {
			return edge.Settings{}, err
		}
		setIf(&s.Models.Mode, a.Models.Mode)
		s.Models.Map = maps.Clone(a.Models.Map)
	}
	if err := a.Limits.apply(&s.Limits); err != nil {
		return edge.Settings{}, err
	}
	return s, a.Timeouts.apply(&s.Timeouts)
}

// redisRetention is how long an idle session stays in Redis where the operator has
// not said it: memory is dearer than a disk.
const redisRetention = 30 * 24 * time.Hour

// retention is the time that sessions are kept, 0 for ever.
func retention(set *caddy.Duration, r *Redis) (time.Duration, error) {
	switch {
	case set == nil && r != nil:
		return redisRetention, nil
	case set == nil || *set == 0:
		return 0, nil
	}
	return time.Duration(*set), inRange("retention", time.Duration(*set), minRetention, maxRetention)
}

func (b settingsBuilder) dataDir(option string) (string, error) {
	dir, err := resolve(b.repl, option)
	if err != nil {
		return "", fmt.Errorf("data_dir %s cannot be resolved: %w", option, err)
	}
	if dir == "" {
		dir = filepath.Join(caddy.AppDataDir(), "hermes")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("data_dir: %w", err)
	}
	return dir, nil
}

// home is the zero Home if none is configured and the user has no home directory.
func (b settingsBuilder) home(option string) (hermeshome.Home, error) {
	dir, err := resolve(b.repl, option)
	if err != nil {
		return hermeshome.Home{}, fmt.Errorf("hermes_home %s cannot be resolved: %w", option, err)
	}
	home, err := hermeshome.Locate(dir, hermeshome.Environment{Getenv: b.env.getenv})
	if err != nil && dir != "" {
		return hermeshome.Home{}, fmt.Errorf("hermes_home: %w", err)
	}
	return home, nil
}

func (b settingsBuilder) gateways(configured map[string]*Gateway, home hermeshome.Home) (map[string]gateway.Config, error) {
	if len(configured) == 0 {
		address, err := b.env.baseURL()
		if err != nil {
			return nil, err
		}
		if address == "" {
			address = gateway.DefaultBaseURL
		}
		configured = map[string]*Gateway{auth.DefaultProfile: {Addresses: []string{address}}}
	}
	out := make(map[string]gateway.Config, len(configured))
	for _, profile := range slices.Sorted(maps.Keys(configured)) {
		if err := checkProfile(profile); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		g := configured[profile]
		if g == nil {
			g = new(Gateway)
		}
		config, err := b.gateway(profile, g, home)
		if err != nil {
			return nil, fmt.Errorf("%s%w", gatewayPrefix(profile), err)
		}
		out[profile] = config
	}
	return out, nil
}

func (b settingsBuilder) gateway(profile string, g *Gateway, home hermeshome.Home) (gateway.Config, error) {
	address, err := b.address(g.Addresses)
	if err != nil {
		return gateway.Config{}, err
	}
	transport := b.env.transport()
	if g.Transport != "" {
		transport = g.Transport
	}
	if err := errors.Join(checkTransport(transport), g.checkTimes()); err != nil {
		return gateway.Config{}, err
	}
	key, err := resolve(b.repl, g.APIKey)
	if err != nil {
		return gateway.Config{}, fmt.Errorf("api_key %s cannot be resolved: %w", g.APIKey, err)
	}
	model, err := resolve(b.repl, g.Model)
	if err != nil {
		return gateway.Config{}, fmt.Errorf("model %s cannot be resolved: %w", g.Model, err)
	}
	headers, err := b.headers(g.Headers)
	if err != nil {
		return gateway.Config{}, err
	}
	trust, err := g.TLS.load()
	if err != nil {
		return gateway.Config{}, err
	}
	base, err := gateway.ParseBaseURL(address)
	if err != nil {
		return gateway.Config{}, err
	}
	config := gateway.Config{
		BaseURL: address,
		Key: gateway.FindKey(gateway.KeyLookup{
			Configured: key, Getenv: b.env.getenv, Home: home, Profile: profile, BaseURL: base,
		}),
		Headers:         headers,
		ConnectTimeout:  time.Duration(g.ConnectTimeout),
		ReadTimeout:     time.Duration(g.ReadTimeout),
		ProgressTimeout: time.Duration(g.ProgressTimeout),
		MaxRuns:         g.maxRuns(),
		Store:           g.Store, Model: model, TLS: trust,
		Logger: b.logger.Named("gateway").With(zap.String("profile", profile)),
	}
	if config.ReadTimeout == 0 {
		config.ReadTimeout = b.env.readTimeout()
	}
	return config, nil
}

func (b settingsBuilder) address(addresses []string) (string, error) {
	if len(addresses) == 0 {
		return "", errors.New("missing address, for example http://127.0.0.1:8642")
	}
	if len(addresses) > 1 {
		return "", errSeveralAddresses
	}
	address, err := resolveRequired(b.repl, addresses[0])
	if err != nil {
		return "", fmt.Errorf("address %s cannot be resolved: %w", addresses[0], err)
	}
	return address, checkAddress(address)
}

func (b settingsBuilder) headers(configured map[string][]string) (http.Header, error) {
	headers := make(http.Header, len(configured))
	for _, name := range slices.Sorted(maps.Keys(configured)) {
		for _, value := range configured[name] {
			resolved, err := resolveRequired(b.repl, value)
			if err != nil {
				return nil, fmt.Errorf("header %s %s cannot be resolved: %w", name, value, err)
			}
			if err := checkHeader(name, resolved); err != nil {
				return nil, err
			}
			headers.Add(name, resolved)
		}
	}
	return headers, nil
}

func (g *Gateway) checkTimes() error {
	for _, t := range []struct {
		name  string
		value caddy.Duration
	}{
		{"connect_timeout", g.ConnectTimeout}, {"read_timeout", g.ReadTimeout}, {"progress_timeout", g.ProgressTimeout},
	} {
		if err := waitInRange(t.name, t.value); err != nil {
			return err
		}
	}
	return inRange("max_runs", g.maxRuns(), 0, maxCount)
}

// defaultMaxRuns is the work cap that gateways have by themselves.
const defaultMaxRuns = 10

func (g *Gateway) maxRuns() int {
	if g.MaxRuns == nil {
		return defaultMaxRuns
	}
	return *g.MaxRuns
}

// load reads the certificates; nil stands for the system's.
func (t *GatewayTLS) load() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.InsecureSkipVerify}
	for _, file := range t.CA {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		if config.RootCAs == nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s has no PEM certificate", file)
		}
	}
	return config, nil
}

// apply checks the set values and lays them over the defaults.
func (l *Limits) apply(to *edge.Limits) error {
	if l == nil {
		return nil
	}
	if err := checkLimits(l); err != nil {
		return err
	}
	setIf(&to.MessageSize, l.MessageSize)
	setIf(&to.Connections, l.Connections)
	setIf(&to.ConnectionsPerUser, l.ConnectionsPerUser)
	setIf(&to.SendBuffer, int(l.SendBuffer))
	setIf(&to.EventRate, l.EventRate)
	setIf(&to.SessionsWatched, l.SessionsWatched)
	setIf(&to.QueueLength, l.QueueLength)
	setIf(&to.RunsPerUser, l.RunsPerUser)
	return nil
}

// apply checks the set values and lays them over the defaults.
func (t *Timeouts) apply(to *edge.Timeouts) error {
	if t == nil {
		return nil
	}
	for _, set := range []struct {
		name   string
		value  caddy.Duration
		target *time.Duration
	}{
		{"ping_interval", t.PingInterval, &to.PingInterval}, {"ping_timeout", t.PingTimeout, &to.PingTimeout},
		{"connect", t.Connect, &to.Connect}, {"upgrade", t.Upgrade, &to.Upgrade},
		{"recovery", t.Recovery, &to.Recovery}, {"drain", t.Drain, &to.Drain},
	} {
		if err := waitInRange("timeouts: "+set.name, set.value); err != nil {
			return err
		}
		setIf(set.target, time.Duration(set.value))
	}
	return nil
}

// waitInRange accepts 0, which stands for the default.
func waitInRange(name string, value caddy.Duration) error {
	if value == 0 {
		return nil
	}
	return inRange(name, time.Duration(value), minWait, maxWait)
}

func setIf[T comparable](target *T, value T) {
	var zero T
	if value != zero {
		*target = value
	}
}

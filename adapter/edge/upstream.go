package edge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/executor/responses"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/metrics"
)

// upstream is a gateway client with its executor and prober, shared by all
// generations whose configuration of that gateway is equal.
type upstream struct {
	cfg      gateway.Config
	key      gateway.Key // as it was when the client was made
	home     string
	client   *gateway.Client
	prober   *gateway.Prober
	executor *responses.Executor
	holders  int // generations and runs; guarded by the pool
}

// upstreams keeps the clients in use. A client that is replaced lives on until
// its last run has ended.
type upstreams struct {
	log     *zap.Logger
	models  func(requested string) string
	metrics *metrics.Metrics

	mu   sync.Mutex
	live []*upstream
}

// take returns a client for cfg, an existing one if its configuration is equal.
// The caller gives it back with release.
func (p *upstreams) take(cfg gateway.Config, home string) (*upstream, error) {
	var key gateway.Key
	if cfg.Key != nil {
		// A key that cannot be read shows in the client's own log and health.
		key, _ = cfg.Key()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.live {
		if u.home == home && u.key == key && equalGateway(u.cfg, cfg) {
			u.holders++
			return u, nil
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = p.log
	}
	client, err := gateway.New(cfg)
	if err != nil {
		return nil, err
	}
	u := &upstream{
		cfg: cfg, key: key, home: home, client: client, prober: gateway.NewProber(client), holders: 1,
		executor: responses.New(responses.Config{Client: client, Model: p.models, Logger: p.log, Observer: p.metrics}),
	}
	p.live = append(p.live, u)
	return u, nil
}

func (p *upstreams) hold(u *upstream) {
	p.mu.Lock()
	u.holders++
	p.mu.Unlock()
}

// release gives a client back and closes it after its last use.
func (p *upstreams) release(u *upstream) {
	p.mu.Lock()
	u.holders--
	idle := u.holders == 0
	if idle {
		p.live = slices.DeleteFunc(p.live, func(o *upstream) bool { return o == u })
	}
	p.mu.Unlock()
	if idle {
		u.prober.Close()
		u.client.Close()
	}
}

var (
	_ engine.Executor = pinned{}
	_ engine.Detacher = pinned{}
)

// pinned is an executor that keeps its client open while it runs.
type pinned struct {
	pool *upstreams
	u    *upstream
}

// Run implements engine.Executor.
func (x pinned) Run(ctx context.Context, turn engine.Turn, sink engine.Sink) engine.Outcome {
	x.pool.hold(x.u)
	defer x.pool.release(x.u)
	return x.u.executor.Run(ctx, turn, sink)
}

// Reattach implements engine.Reattacher.
func (x pinned) Reattach(ctx context.Context, turn engine.Turn, wireID, sofar string, sink engine.Sink) (engine.Outcome, bool) {
	x.pool.hold(x.u)
	defer x.pool.release(x.u)
	return x.u.executor.Reattach(ctx, turn, wireID, sofar, sink)
}

// CanReattach implements engine.Detacher.
func (x pinned) CanReattach(wireID string) (ok, unharmed bool) {
	return x.u.executor.CanReattach(wireID)
}

// equalGateway compares configurations without their keys.
func equalGateway(a, b gateway.Config) bool {
	return a.BaseURL == b.BaseURL &&
		maps.EqualFunc(a.Headers, b.Headers, slices.Equal[[]string]) &&
		a.ConnectTimeout == b.ConnectTimeout && a.HeaderTimeout == b.HeaderTimeout &&
		a.ReadTimeout == b.ReadTimeout && a.ProgressTimeout == b.ProgressTimeout &&
		a.RecoverTimeout == b.RecoverTimeout &&
		a.MaxRuns == b.MaxRuns && a.Store == b.Store && a.Model == b.Model && a.MaxLine == b.MaxLine &&
		equalTLS(a.TLS, b.TLS)
}

// equalTLS compares what an operator can set; anything else counts as different.
func equalTLS(a, b *tls.Config) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	return a.InsecureSkipVerify == b.InsecureSkipVerify && a.ServerName == b.ServerName &&
		equalPool(a.RootCAs, b.RootCAs) &&
		equalCertificates(a.Certificates, b.Certificates) &&
		a.GetClientCertificate == nil && b.GetClientCertificate == nil
}

func equalCertificates(a, b []tls.Certificate) bool {
	return slices.EqualFunc(a, b, func(a, b tls.Certificate) bool {
		return slices.EqualFunc(a.Certificate, b.Certificate, slices.Equal[[]byte])
	})
}

func equalPool(a, b *x509.CertPool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}

// errNoGateway is what a run of a profile without gateway ends with.
func errNoGateway(profile string) error {
	return fmt.Errorf("profile %q has no gateway", profile)
}

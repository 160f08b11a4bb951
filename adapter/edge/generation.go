package edge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"sync/atomic"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
)

// executorClass is the class of every run that a gateway carries out.
const executorClass = "gateway"

// generation is one configuration made ready for use. It is immutable; holders
// counts who may still ask for its clients: its attachment, and the core while it
// is current.
type generation struct {
	settings  Settings
	pool      *upstreams
	upstreams map[string]*upstream // by profile
	profiles  []string             // sorted
	mounts    []auth.Authenticator // of settings.Mounts, with failed logins answered late
	holders   atomic.Int32
}

// newGeneration checks and prepares settings. It makes no connection. The caller
// holds the result once.
func newGeneration(s Settings, pool *upstreams, generated auth.Authenticator) (*generation, error) {
	g := &generation{settings: s, pool: pool, upstreams: make(map[string]*upstream, len(s.Gateways))}
	g.holders.Store(1)
	for _, profile := range slices.Sorted(maps.Keys(s.Gateways)) {
		u, err := pool.take(s.Gateways[profile], s.HermesHome)
		if err != nil {
			g.release()
			return nil, fmt.Errorf("gateway %q: %w", profile, err)
		}
		g.upstreams[profile] = u
		g.profiles = append(g.profiles, profile)
	}
	for _, m := range s.Mounts {
		g.mounts = append(g.mounts, mountRules(m, generated))
	}
	return g, nil
}

// mountRules composes the rules of a mount with its ceiling and sharing.
func mountRules(m *Mount, generated auth.Authenticator) auth.Authenticator {
	rules := m.Auth
	if rules == nil {
		rules = generated
	}
	return auth.Delayed(auth.Mounted(rules, m.Profiles, m.Shared), auth.FailureDelay, nil)
}

// rules finds those of a mount, nil if it is not one of this generation.
func (g *generation) rules(m *Mount) auth.Authenticator {
	if i := slices.Index(g.settings.Mounts, m); i >= 0 {
		return g.mounts[i]
	}
	return nil
}

func (g *generation) hold() { g.holders.Add(1) }

// release gives up one hold; after the last one the clients are given back.
func (g *generation) release() {
	if g.holders.Add(-1) > 0 {
		return
	}
	for _, u := range g.upstreams {
		g.pool.release(u)
	}
}

// executor returns what carries out the next run of a profile.
func (g *generation) executor(profile string) (class string, x engine.Executor, err error) {
	u, ok := g.upstreams[profile]
	if !ok {
		return "", nil, errNoGateway(profile)
	}
	return executorClass, pinned{pool: g.pool, u: u}, nil
}

// slots answers the gateway of a profile by its address, and how many runs may work
// there at a time.
func (g *generation) slots(profile string) (gateway string, limit int) {
	u, ok := g.upstreams[profile]
	if !ok {
		return "", 0
	}
	return slotsName(u.client.BaseURL(), os.Hostname), u.cfg.MaxRuns
}

// slotsName names a gateway for all nodes. A loopback address means another gateway
// on each machine.
func slotsName(base *url.URL, hostname func() (string, error)) string {
	name := base.String()
	if !gateway.IsLoopback(base) {
		return name
	}
	host, err := hostname()
	if err != nil {
		return name // counted together at worst
	}
	return host + " " + name
}

// engineLimits are the limits that the engine enforces.
func (g *generation) engineLimits() engine.Limits {
	l := g.settings.Limits
	return engine.Limits{RunsPerUser: l.RunsPerUser, RoomsPerSocket: l.SessionsWatched}
}

// model applies the model policy (R13): what is sent upstream for a model that
// the client asked for; empty leaves the choice to the gateway.
func (g *generation) model(requested string) string {
	switch p := g.settings.Models; p.Mode {
	case ModelsPass:
		return requested
	case ModelsMap:
		return p.Map[requested]
	default:
		return ""
	}
}

// review decides again about a principal of an earlier generation (R5).
func (g *generation) review(p *auth.Principal) (*auth.Principal, bool) {
	return auth.ReviewAny(g.mounts, p)
}

// probe asks every gateway that was not asked yet, so that health and the log
// name a missing key or a wrong address before the first run fails by it.
func (g *generation) probe(ctx context.Context, failed func(profile string, err error)) {
	for _, profile := range g.profiles {
		if _, err := g.upstreams[profile].prober.Info(ctx); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
			failed(profile, err)
		}
	}
}

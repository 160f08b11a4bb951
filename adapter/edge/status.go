package edge

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/httpapi"
)

// healthTimeout bounds the questions to gateways for one health answer.
const healthTimeout = 3 * time.Second

// Status is one of httpapi's states: starting, unavailable and draining are not
// ready (503); degraded serves, but something an operator should look at is wrong.
func (c *Core) Status() string {
	switch {
	case c.exit.begun():
		return httpapi.StatusDraining
	case c.backend.Load() == nil:
		return httpapi.StatusStarting
	case !c.available():
		return httpapi.StatusUnavailable
	case c.trouble.Load() != nil || len(c.watch.list()) > 0 || c.gatewayDown():
		return httpapi.StatusDegraded
	default:
		return httpapi.StatusOK
	}
}

// ready reports whether connections are taken.
func (c *Core) ready() bool { return !c.exit.begun() && c.available() }

// available reports whether the store is open and answers.
func (c *Core) available() bool {
	b := c.backend.Load()
	return b != nil && (b.shared == nil || b.shared.Available() && !c.watch.refused())
}

// gatewayDown reports whether the last question to a gateway failed. It asks none.
func (c *Core) gatewayDown() bool {
	g := c.gen.Load()
	if g == nil {
		return false
	}
	for _, u := range g.upstreams {
		if s := u.prober.Status(); s.Probed && !s.Reachable {
			return true
		}
	}
	return false
}

// Health is the redacted detail of the health answers, for admins only (the caller
// decides). It holds no key and no address of a gateway. It may ask gateways whose last answer
// is old; ctx bounds that, and 3 seconds do.
func (c *Core) Health(ctx context.Context) map[string]any {
	g := c.gen.Load()
	if g != nil {
		g.hold()
		defer g.release()
		ctx, cancel := context.WithTimeout(ctx, healthTimeout)
		defer cancel()
		g.refresh(ctx)
	}
	status := c.Status()
	health := map[string]any{
		"status":     status,
		"alive":      c.alive(g),
		"checked_at": time.Now().UTC().Format(time.RFC3339),
		"node":       c.node,
		"store":      c.storeHealth(g),
		"counts":     c.counts(),
	}
	if g != nil {
		health["gateways"] = g.health()
		health["gateway_chat"] = g.chatHealth()
		health["models"] = modelsMode(g.settings.Models.Mode)
	}
	return health
}

// alive is true if every gateway answers, false if one does not, nil if there is
// none or none was asked.
func (c *Core) alive(g *generation) any {
	if g == nil || len(g.upstreams) == 0 {
		return nil
	}
	for _, u := range g.upstreams {
		s := u.prober.Status()
		if !s.Probed {
			return nil
		}
		if !s.Reachable {
			return false
		}
	}
	return true
}

func (c *Core) storeHealth(g *generation) map[string]any {
	h := map[string]any{"kind": "embedded", "open": c.backend.Load() != nil}
	if g != nil && g.settings.Redis != nil {
		h["kind"], h["mode"] = "redis", g.settings.Redis.Mode
		h["available"] = c.available()
		h["problems"] = append([]string{}, c.watch.list()...)
		h["latency_ms"] = float64(c.watch.latency.Load()) / float64(time.Millisecond)
	}
	if trouble := c.trouble.Load(); trouble != nil {
		h["error"] = *trouble
	}
	return h
}

// Stats counts what is open and active, for the admin endpoint.
func (c *Core) Stats() map[string]any {
	stats := c.counts()
	stats["status"] = c.Status()
	stats["node"] = c.node
	return stats
}

func (c *Core) counts() map[string]any {
	counts := map[string]any{
		"connections": c.io.Connections(),
		"sockets":     c.sockets.count(),
		"users":       c.sockets.users(),
	}
	if e := c.engine(); e != nil {
		s := e.Stats()
		counts["sessions"], counts["active_runs"], counts["watchers"] = s.Sessions, s.ActiveRuns, s.Watchers
	}
	return counts
}

// refresh asks the gateways whose last answer is old, all at once.
func (g *generation) refresh(ctx context.Context) {
	var asking sync.WaitGroup
	for _, u := range g.upstreams {
		asking.Go(func() {
			// The answer is read from Status below, its failure included.
			_, _ = u.prober.Info(ctx)
		})
	}
	asking.Wait()
}

// health is the last known state of each profile's gateway.
func (g *generation) health() map[string]gateway.Status {
	out := make(map[string]gateway.Status, len(g.upstreams))
	for profile, u := range g.upstreams {
		out[profile] = u.prober.Status()
	}
	return out
}

// chatHealth names the effective settings as the reference server does (advanced
// chat section 5), for the tools that read them.
func (g *generation) chatHealth() map[string]any {
	chat := map[string]any{"enabled": len(g.upstreams) > 0, "backend": "gateway", "profiles": slices.Sorted(maps.Keys(g.upstreams))}
	if u := g.upstreams["default"]; u != nil {
		chat["base_url_configured"] = u.cfg.BaseURL != ""
		chat["api_key_configured"] = u.client.KeySource() != ""
		chat["read_timeout_s"] = int(u.cfg.ReadTimeout / time.Second)
	}
	return chat
}

func modelsMode(mode string) string {
	if mode == "" {
		return ModelsIgnore
	}
	return mode
}

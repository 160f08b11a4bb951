package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/edge"
)

const (
	appName       = "hermes"
	directiveName = "hermes_edge"
)

// attachTimeout bounds Start, in which an older core of the same data is hurried
// and the lock on the data file is waited for.
const attachTimeout = 20 * time.Second

func init() {
	caddy.RegisterModule(App{})
	caddy.RegisterModule(new(Handler))
	caddy.RegisterModule(Admin{})
	httpcaddyfile.RegisterGlobalOption(appName, parseGlobal)
	httpcaddyfile.RegisterDirective(directiveName, parseDirective)
	// Before handle and its kind: most sites have a catch-all of that sort, behind
	// which the directive would never be reached.
	httpcaddyfile.RegisterDirectiveOrder(directiveName, httpcaddyfile.Before, "invoke")
}

// App is everything of Hermes Edge that exists once in a process: the data, the
// gateways and the limits. Without a configuration of its own it works with
// defaults as soon as a hermes_edge handler asks for it.
type App struct {
	// Folder of the data file and the access token. Placeholders are allowed.
	// Default: the folder hermes in Caddy's data directory.
	DataDir string `json:"data_dir,omitempty"`

	// Where several nodes share sessions, runs and the access token. Default: none,
	// they are kept in the data file.
	Redis *Redis `json:"redis,omitempty"`

	// This process among the nodes that share a Redis.
	Node *Node `json:"node,omitempty"`

	// The gateways by profile. Default: profile "default" at
	// HERMES_WEBUI_GATEWAY_BASE_URL, else http://127.0.0.1:8642.
	Gateways map[string]*Gateway `json:"gateways,omitempty"`

	// The hermes home, where the key of a gateway on this machine is read from.
	// Placeholders are allowed. Default: HERMES_HOME, else ~/.hermes.
	HermesHome string `json:"hermes_home,omitempty"`

	// What the model that a client names in a run may do. Default: it is ignored.
	Models *Models `json:"models,omitempty"`

	// How long a session is kept after its last activity; 0 is forever. Default:
	// forever in the data file, 30 days in Redis.
	Retention *caddy.Duration `json:"retention,omitempty"`

	// Bounds of the process.
	Limits *Limits `json:"limits,omitempty"`

	// Timeouts of connections and of the exit.
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	logger   *zap.Logger
	env      environment
	settings edge.Settings
	servers  map[*caddyhttp.Server]bool // with a handler of ours; true: one of them has auth off
	core     *pooledCore
	attached *edge.Attachment
}

// CaddyModule implements [caddy.Module].
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: appName, New: func() caddy.Module { return new(App) }}
}

// Provision checks the configuration and takes a reference to the core. It has no
// side effects beyond that: it also runs for configurations that never start.
func (a *App) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	a.env = environment{getenv: os.Getenv, logger: a.logger}
	a.servers = make(map[*caddyhttp.Server]bool)
	settings, err := settingsBuilder{repl: caddy.NewReplacer(), env: a.env, logger: a.logger}.build(a)
	if err != nil {
		return err
	}
	a.settings = settings
	a.env.warnBackend()
	if err := registerMetrics(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	if err := a.subscribe(ctx); err != nil {
		return err
	}
	a.core, err = acquireCore(settings.CoreKey(), edge.Deps{
		Logger: a.logger, Metrics: processMetrics(), Node: settings.Node.Name,
	})
	return err
}

// subscribe hears of the exit before any app is stopped. With no grace period a
// held poll would otherwise keep the process from ending.
func (a *App) subscribe(ctx caddy.Context) error {
	module, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("events app: %w", err)
	}
	events, ok := module.(*caddyevents.App)
	if !ok {
		return errors.New("events app: unexpected type")
	}
	return events.On("stopping", stoppingHandler{a})
}

type stoppingHandler struct{ app *App }

// Handle implements [caddyevents.Handler].
func (h stoppingHandler) Handle(context.Context, caddy.Event) error {
	if caddy.Exiting() && h.app.core != nil {
		draining.beginExit(h.app.core.drainTime())
		h.app.core.core.BeginExit()
	}
	return nil
}

// addMount makes a handler part of this configuration. srv is nil where the
// handler runs in no HTTP server.
func (a *App) addMount(m *edge.Mount, srv *caddyhttp.Server) error {
	for _, profile := range m.Profiles {
		if _, ok := a.settings.Gateways[profile]; !ok {
			return fmt.Errorf("profiles: %q has no gateway (configured: %s)", profile, a.profileList())
		}
	}
	a.settings.Mounts = append(a.settings.Mounts, m)
	a.settings.NeedsToken = a.settings.NeedsToken || m.Auth == nil
	if srv != nil {
		if _, known := a.servers[srv]; !known {
			srv.RegisterConnContext(keepRawConn)
		}
		_, open := m.Auth.(auth.Off)
		a.servers[srv] = a.servers[srv] || open
	}
	return nil
}

// Start attaches this configuration's settings to the core: they become the
// current ones.
func (a *App) Start() error {
	ctx, cancel := context.WithTimeout(context.Background(), attachTimeout)
	defer cancel()
	attached, err := a.core.core.Attach(ctx, a.settings)
	if err != nil {
		return fmt.Errorf("hermes: %w", err)
	}
	a.attached = attached
	a.core.setDrain(a.settings.Timeouts.Drain)
	a.warnOpen()
	a.showToken()
	return nil
}

// Stop takes the settings away again: those of the newest configuration that is
// still attached become current.
func (a *App) Stop() error {
	if a.attached != nil {
		a.attached.Detach()
	}
	return nil
}

// Cleanup releases what Provision took.
func (a *App) Cleanup() error {
	if a.core == nil {
		return nil
	}
	_, err := cores.Delete(a.core.key)
	a.core = nil
	if caddy.Exiting() {
		draining.awaitAll()
	}
	return err
}

// Interface guards
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Module       = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

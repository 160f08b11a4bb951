package caddymodule

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/edge"
)

func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option hermes is given twice; write one block")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: appName, Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile reads the global block:
//
//	hermes {
//		data_dir    <path>
//		gateway     [<profile>] <address> {
//			api_key  <key>
//			transport auto|responses
//			model    <name>
//			header   <name> <value>
//			connect_timeout|read_timeout|progress_timeout <duration>
//			max_runs <n>
//			store    on|off
//			tls_ca   <file...>
//			tls_insecure_skip_verify
//		}
//		redis       <url...> {
//			mode     standalone|sentinel|cluster
//			master   <name>
//			username|password|sentinel_username|sentinel_password <value>
//			prefix   <text>
//			timeout  <duration>
//			durability none|replica
//			tls_ca   <file...>
//			tls_client_auth <certificate> <key>
//			tls_server_name <name>
//			tls_insecure_skip_verify
//		}
//		node        [<name>] {
//			advertise <address>|off
//		}
//		hermes_home <dir>
//		models      ignore|pass|map <name> <model>...
//		retention   <duration>|forever
//		limits      { ... }
//		timeouts    { ... }
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.Errf("hermes takes a block and no argument, got %q", d.Val())
	}
	return parseBlock(d, "hermes", "", []word{
		{name: "data_dir", parse: text("data_dir", "/var/lib/hermes-edge", &a.DataDir)},
		{name: "gateway", rep: true, block: true, parse: func(args []string) error { return a.parseGateway(d, args) }},
		{name: "redis", block: true, parse: func(args []string) error { return a.parseRedis(d, args) }},
		{name: "node", block: true, parse: func(args []string) error { return a.parseNode(d, args) }},
		{name: "hermes_home", parse: text("hermes_home", "/home/me/.hermes", &a.HermesHome)},
		{name: "models", parse: a.parseModels},
		{name: "retention", parse: a.parseRetention},
		{name: "limits", block: true, parse: func(args []string) error { return a.parseLimits(d, args) }},
		{name: "timeouts", block: true, parse: func(args []string) error { return a.parseTimeouts(d, args) }},
	})
}

func (a *App) parseGateway(d *caddyfile.Dispenser, args []string) error {
	profile := auth.DefaultProfile
	if len(args) > 0 && auth.ValidProfile(args[0]) {
		profile, args = args[0], args[1:]
	}
	prefix := gatewayPrefix(profile)
	switch {
	case len(args) == 0 && profile == auth.DefaultProfile:
		return errors.New(prefix + "missing address, for example: gateway http://127.0.0.1:8642")
	case len(args) == 0:
		return fmt.Errorf("%smissing address, for example: gateway %s http://127.0.0.1:8643", prefix, profile)
	case a.Gateways[profile] != nil:
		return fmt.Errorf("gateway %q is configured twice", profile)
	}
	for _, address := range args {
		if err := checkAddress(address); err != nil {
			return located(d, prefix, err)
		}
	}
	if len(args) > 1 {
		return errors.New(prefix + errSeveralAddresses.Error())
	}
	g := &Gateway{Addresses: args}
	if err := g.parseBlock(d, prefix); err != nil {
		return err
	}
	if a.Gateways == nil {
		a.Gateways = make(map[string]*Gateway)
	}
	a.Gateways[profile] = g
	return nil
}

var errSeveralAddresses = errors.New("several addresses are not part of this version: give one")

func gatewayPrefix(profile string) string { return fmt.Sprintf("gateway %q: ", profile) }

func (g *Gateway) parseBlock(d *caddyfile.Dispenser, prefix string) error {
	tls := new(GatewayTLS)
	err := parseBlock(d, "gateway", prefix, []word{
		{name: "api_key", parse: text("api_key", "{env.API_SERVER_KEY}", &g.APIKey)},
		{name: "transport", parse: one("transport", "auto", func(value string) error {
			g.Transport = value
			return checkTransport(value)
		})},
		{name: "model", parse: text("model", "hermes-agent", &g.Model)},
		{name: "header", rep: true, parse: g.parseHeader},
		{name: "connect_timeout", parse: duration("connect_timeout", "10s", minWait, maxWait, &g.ConnectTimeout)},
		{name: "read_timeout", parse: duration("read_timeout", "10m", minWait, maxWait, &g.ReadTimeout)},
		{name: "progress_timeout", parse: duration("progress_timeout", "30m", minWait, maxWait, &g.ProgressTimeout)},
		{name: "max_runs", parse: func(args []string) error {
			g.MaxRuns = new(int)
			return count("max_runs", "10", 0, maxCount, g.MaxRuns)(args)
		}},
		{name: "store", parse: one("store", "off", func(value string) error {
			if value != "on" && value != "off" {
				return fmt.Errorf("store %q is unknown (on, off)", value)
			}
			g.Store = value == "on"
			return nil
		})},
		{name: "tls_ca", parse: func(args []string) error {
			if len(args) == 0 {
				return errors.New("tls_ca needs at least one file")
			}
			tls.CA = args
			return nil
		}},
		{name: "tls_insecure_skip_verify", parse: bare("tls_insecure_skip_verify", &tls.InsecureSkipVerify)},
	})
	if len(tls.CA) > 0 || tls.InsecureSkipVerify {
		g.TLS = tls
	}
	return err
}

func (g *Gateway) parseHeader(args []string) error {
	if len(args) != 2 {
		return errors.New("header takes a name and a value, for example: header X-Access {env.ACCESS}")
	}
	if err := checkHeader(args[0], args[1]); err != nil {
		return err
	}
	if g.Headers == nil {
		g.Headers = make(map[string][]string)
	}
	g.Headers[args[0]] = append(g.Headers[args[0]], args[1])
	return nil
}

func (a *App) parseModels(args []string) error {
	if len(args) == 0 {
		return errors.New("models takes ignore, pass or map")
	}
	m := &Models{Mode: args[0]}
	pairs := args[1:]
	if len(pairs)%2 != 0 {
		return fmt.Errorf("models %s: %q has no model; give pairs of name and model", m.Mode, pairs[len(pairs)-1])
	}
	for i := 0; i < len(pairs); i += 2 {
		if m.Map == nil {
			m.Map = make(map[string]string)
		}
		if _, twice := m.Map[pairs[i]]; twice {
			return fmt.Errorf("models map: %q is given twice", pairs[i])
		}
		m.Map[pairs[i]] = pairs[i+1]
	}
	a.Models = m
	return checkModels(m)
}

func (a *App) parseRetention(args []string) error {
	a.Retention = new(caddy.Duration)
	if len(args) == 1 && args[0] == "forever" {
		return nil
	}
	return duration("retention", "30d", minRetention, maxRetention, a.Retention)(args)
}

func (a *App) parseLimits(d *caddyfile.Dispenser, args []string) error {
	if len(args) > 0 {
		return errors.New("limits takes a block and no argument")
	}
	l := new(Limits)
	a.Limits = l
	return parseBlock(d, "limits", "limits: ", []word{
		{name: "message_size", parse: size("message_size", "1MB", minMessage, maxMessage, &l.MessageSize)},
		{name: "connections", parse: count("connections", "10000", 0, maxCount, &l.Connections)},
		{name: "connections_per_user", parse: count("connections_per_user", "64", 1, maxCount, &l.ConnectionsPerUser)},
		{name: "send_buffer", parse: size("send_buffer", "256KiB", minSendBuffer, maxSendBuf, &l.SendBuffer)},
		{name: "event_rate", parse: rate("event_rate", "50/s", minRate, maxRate, &l.EventRate)},
		{name: "sessions_watched", parse: count("sessions_watched", "256", 1, maxCount, &l.SessionsWatched)},
		{name: "queue_length", parse: count("queue_length", "32", 1, maxCount, &l.QueueLength)},
		{name: "runs_per_user", parse: count("runs_per_user", "4", 0, maxCount, &l.RunsPerUser)},
	})
}

func (a *App) parseTimeouts(d *caddyfile.Dispenser, args []string) error {
	if len(args) > 0 {
		return errors.New("timeouts takes a block and no argument")
	}
	t := new(Timeouts)
	a.Timeouts = t
	defaults := edge.DefaultTimeouts()
	wait := func(name string, example time.Duration, target *caddy.Duration) word {
		return word{name: name, parse: duration(name, shortDuration(example), minWait, maxWait, target)}
	}
	return parseBlock(d, "timeouts", "timeouts: ", []word{
		wait("ping_interval", defaults.PingInterval, &t.PingInterval),
		wait("ping_timeout", defaults.PingTimeout, &t.PingTimeout),
		wait("connect", defaults.Connect, &t.Connect),
		wait("upgrade", defaults.Upgrade, &t.Upgrade),
		wait("recovery", defaults.Recovery, &t.Recovery),
		wait("drain", defaults.Drain, &t.Drain),
	})
}

// shortDuration writes 2m instead of 2m0s.
func shortDuration(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// Interface guard
var _ caddyfile.Unmarshaler = (*App)(nil)

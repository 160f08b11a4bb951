package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	// pingInterval is shorter than in production: a window of seconds has to see
	// heartbeats.
	pingInterval = 5 * time.Second
	// patience is how long servers and generator wait for each other: a machine
	// that has other work as well makes a run slow and not wrong.
	patience = time.Minute
)

// The servers by the names of the table.
const (
	edgeName   = "hermes-edge"
	socketName = "adapter/socketio"
	nodeName   = "Node socket.io"
	proxyName  = "Caddy reverse_proxy"
)

// starter starts a server on a core, with a gateway of its own if it needs one.
type starter func(ctx context.Context, core int) (*target, error)

// startSocket starts the Socket.IO server alone.
func (b *binaries) startSocket(ctx context.Context, core int) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, core, addr, b.dir, b.socket, "-port", portOf(addr), "-debug",
		"-ping-interval", pingInterval.String(), "-ping-timeout", patience.String(), "-connect-timeout", patience.String())
	if err != nil {
		return nil, err
	}
	p.debugAt(addr)
	return &target{process: p}, nil
}

func (b *binaries) startNode(ctx context.Context, core int) (*target, error) {
	return b.launchNode(ctx, core)
}

// startRecoveringNode starts the peer with connection state recovery.
func (b *binaries) startRecoveringNode(ctx context.Context, core int) (*target, error) {
	return b.launchNode(ctx, core, "recovery")
}

func (b *binaries) launchNode(ctx context.Context, core int, more ...string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	argv := []string{"node", "--expose-gc", filepath.Join(b.node, "server.js"), portOf(addr), milliText(pingInterval), milliText(patience)}
	p, err := launch(ctx, core, addr, b.dir, append(argv, more...)...)
	if err != nil {
		return nil, err
	}
	p.gc = "http://" + addr + "/gc"
	return &target{process: p}, nil
}

const edgeSite = `{
	admin %[1]s
	persist_config off
	hermes {
		data_dir %[2]s
		gateway http://%[3]s {
			api_key %[4]s
			max_runs 0
		}
		limits {
			connections_per_user 1000000
		}
		timeouts {
			ping_interval %[5]s
			ping_timeout %[6]s
		}
	}
}
http://%[7]s {
	bind 127.0.0.1
	hermes_edge {
		auth off
	}
}
`

const proxySite = `{
	admin %[1]s
	persist_config off
}
http://%[7]s {
	bind 127.0.0.1
	reverse_proxy %[3]s {
		flush_interval -1
	}
}
`

func (b *binaries) startEdge(ctx context.Context, core int) (*target, error) {
	t, err := b.startCaddy(ctx, core, edgeSite)
	if err != nil {
		return nil, err
	}
	// It listens before its store is open.
	if err := t.awaitReady(ctx, "http://"+t.addr+"/chat-run/health"); err != nil {
		t.stop()
		return nil, err
	}
	return t, nil
}

func (b *binaries) startProxy(ctx context.Context, core int) (*target, error) {
	return b.startCaddy(ctx, core, proxySite)
}

// startCaddy starts the one binary with a configuration, in front of a fake
// gateway on the generator's core.
func (b *binaries) startCaddy(ctx context.Context, core int, site string) (*target, error) {
	gateway, err := b.startGateway(ctx, core)
	if err != nil {
		return nil, err
	}
	t := &target{gateway: gateway}
	if t.process, err = b.launchCaddy(ctx, core, site, gateway.addr); err != nil {
		gateway.stop()
		return nil, err
	}
	return t, nil
}

func (b *binaries) startGateway(ctx context.Context, core int) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if core != anyCore {
		core = generatorCore
	}
	return launch(ctx, core, addr, b.dir, b.gateway, "-addr", addr, "-key", gatewayKey)
}

// launchCaddy starts the one binary with a configuration. More values go to the
// places of the template behind the usual ones.
func (b *binaries) launchCaddy(ctx context.Context, core int, template, gateway string, more ...any) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(b.dir, "caddy-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(home, "Caddyfile")
	values := append([]any{admin, filepath.Join(home, "data"), gateway, gatewayKey, pingInterval, patience, addr}, more...)
	if err := os.WriteFile(file, fmt.Appendf(nil, template, values...), 0o600); err != nil {
		return nil, err
	}
	p, err := launch(ctx, core, addr, home, b.edge, "run", "--config", file, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	p.debugAt(admin)
	return p, nil
}

func milliText(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func portOf(addr string) string { return addr[len("127.0.0.1:"):] }

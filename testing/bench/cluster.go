package main

import (
	"context"
	"fmt"
	"strings"
)

// sharedSite is edgeSite as a named node on a Redis.
var sharedSite = strings.Replace(edgeSite, "hermes {\n", "hermes {\n\t\tredis redis://%[8]s\n\t\tnode %[9]s\n", 1)

// startCluster returns a starter of n edge nodes on one Redis, all in front of
// one gateway. The first node is the target's own process.
func (b *binaries) startCluster(n int, keeps []string) starter {
	return func(ctx context.Context, core int) (*target, error) {
		t := new(target)
		if err := b.growCluster(ctx, t, core, n, keeps); err != nil {
			t.stop()
			return nil, err
		}
		return t, nil
	}
}

// growCluster starts everything of a cluster; the caller stops what there is.
func (b *binaries) growCluster(ctx context.Context, t *target, core, n int, keeps []string) (err error) {
	if t.redis, err = b.startRedis(ctx, core, keeps); err != nil {
		return err
	}
	if t.gateway, err = b.startGateway(ctx, core); err != nil {
		return err
	}
	for i := range n {
		p, err := b.launchCaddy(ctx, core, sharedSite, t.gateway.addr, t.redis.addr, fmt.Sprintf("node%d", i+1))
		if err != nil {
			return err
		}
		if i == 0 {
			t.process = p
		} else {
			t.more = append(t.more, p)
		}
		if err := p.awaitReady(ctx, "http://"+p.addr+"/chat-run/health"); err != nil {
			return fmt.Errorf("node %d on Redis is not ready: %w\n%s", i+1, err, p.output)
		}
	}
	return nil
}

// startStore starts a Redis alone.
func (b *binaries) startStore(ctx context.Context, core int) (*target, error) {
	r, err := b.startRedis(ctx, core, inMemory)
	if err != nil {
		return nil, err
	}
	return &target{redis: r}, nil
}

//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/storetest"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store that is patient with a slow machine and ends with its test.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	if o.Node == "" {
		o.Node = "n1"
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.breakAfter == 0 {
		o.breakAfter = 20 * time.Second
	}
	o.Logger = zaptest.NewLogger(t)
	st, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// age makes all keys of a prefix older: those with a time to live end earlier,
// members of the work index are due earlier, slots of gateways are lost earlier.
func age(t testing.TB, st *Store, prefix string, by time.Duration) {
	t.Helper()
	const script = `
		for _, k in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
			local ttl = redis.call('PTTL', k)
			if ttl >= 0 then
				if ttl <= tonumber(ARGV[2]) then redis.call('DEL', k) else redis.call('PEXPIRE', k, ttl - ARGV[2]) end
			end
			local kind = string.sub(k, #ARGV[1] + 1, #ARGV[1] + 3)
			if kind == 'w{w' or kind == 'g{g' then
				local all = redis.call('ZRANGE', k, 0, -1)
				for _, m in ipairs(all) do redis.call('ZINCRBY', k, -ARGV[2], m) end
			end
		end
		return 1`
	ctx := context.Background()
	on := func(c redis.UniversalClient) error {
		return c.Eval(ctx, "#!lua flags=allow-cross-slot-keys\n"+script, nil, prefix, by.Milliseconds()).Err()
	}
	err := error(nil)
	if cluster, ok := st.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error { return on(c) })
	} else {
		err = on(st.client)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestConformance: three nodes share one server, each test has its own prefix.
func TestConformance(t *testing.T) {
	server := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	conformance(t, Options{Addrs: []string{server.Addr}}, func() {
		server.Stop()
		server.Restart()
	})
}

// TestConformanceCluster: three nodes share a cluster of three masters, so that a
// script that touches a key of another slot fails.
func TestConformanceCluster(t *testing.T) {
	var addrs []string
	for _, s := range redisserver.StartCluster(t, 3) {
		addrs = append(addrs, s.Addr)
	}
	conformance(t, Options{Mode: Cluster, Addrs: addrs}, nil)
}

func conformance(t *testing.T, o Options, newGeneration func()) {
	n := 0
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		n++
		prefix := fmt.Sprintf("t%d:", n)
		h := storetest.Harness{Limits: storetest.Limits(), Leases: true, NotAfter: true, Retention: 24 * time.Hour}
		var nodes []*Store
		if newGeneration != nil {
			h.NewGeneration = func() {
				newGeneration()
				for _, st := range nodes {
					answers(t, st)
				}
			}
		}
		for i := range 3 {
			o := o
			o.Prefix, o.Node, o.Limits, o.Retention = prefix, fmt.Sprintf("n%d", i+1), h.Limits, h.Retention
			st := open(t, o)
			nodes = append(nodes, st)
			h.Nodes = append(h.Nodes, store.Store(st))
		}
		h.Pass = func(d time.Duration) { age(t, nodes[0], prefix, d) }
		return h
	})
}

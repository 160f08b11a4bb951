//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	if o.BreakAfter == 0 {
		o.BreakAfter = 20 * time.Second
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
	each(t, st, func(ctx context.Context, c redis.UniversalClient) error {
		return c.Eval(ctx, "#!lua flags=allow-cross-slot-keys\n"+script, nil, prefix, by.Milliseconds()).Err()
	})
}

// each runs a function on the server, or on each of a cluster.
func each(t testing.TB, st *Store, on func(context.Context, redis.UniversalClient) error) {
	t.Helper()
	ctx, err := context.Background(), error(nil)
	if cluster, ok := st.current.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return on(ctx, c) })
	} else {
		err = on(ctx, st.current.client)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// saved is a key with its contents and its time to live, 0 if it has none.
type saved struct {
	key, dump string
	ttl       time.Duration
}

// mark copies all keys of a prefix.
func mark(t testing.TB, st *Store, prefix string) any {
	t.Helper()
	var mu sync.Mutex
	var all []saved
	each(t, st, func(ctx context.Context, c redis.UniversalClient) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		for _, k := range keys {
			var dump string
			if dump, err = c.Dump(ctx, k).Result(); err != nil {
				return err
			}
			mu.Lock()
			all = append(all, saved{k, dump, max(0, c.PTTL(ctx, k).Val())})
			mu.Unlock()
		}
		return err
	})
	return all
}

// fallBack makes all keys of a prefix what they were.
func fallBack(t testing.TB, st *Store, prefix string, to any) {
	t.Helper()
	each(t, st, func(ctx context.Context, c redis.UniversalClient) error {
		keys, err := c.Keys(ctx, prefix+"*").Result()
		for _, k := range keys {
			err = errors.Join(err, c.Del(ctx, k).Err())
		}
		return err
	})
	all, ok := to.([]saved)
	if !ok {
		t.Fatalf("not a mark: %T", to)
	}
	for _, s := range all {
		if err := st.current.client.Restore(t.Context(), s.key, s.ttl, s.dump).Err(); err != nil {
			t.Fatal(err)
		}
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
		h.Mark = func(t *testing.T) any { return mark(t, nodes[0], prefix) }
		h.FallBack = func(t *testing.T, to any) {
			fallBack(t, nodes[0], prefix, to)
			nodes[0].generations.bump("", "a test made the store fall back")
		}
		h.Pass = func(d time.Duration) { age(t, nodes[0], prefix, d) }
		return h
	})
}

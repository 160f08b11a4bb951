//go:build unix

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store/storetest"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// TestSharedConformance: what nodes know of each other, on one server and in a
// cluster.
func TestSharedConformance(t *testing.T) {
	single := Options{Addrs: []string{redisserver.Start(t).Addr}}
	cluster := Options{Mode: Cluster}
	for _, s := range redisserver.StartCluster(t, 3) {
		cluster.Addrs = append(cluster.Addrs, s.Addr)
	}
	for name, o := range map[string]Options{"single": single, "cluster": cluster} {
		n := 0
		t.Run(name, func(t *testing.T) {
			storetest.RunShared(t, func(t *testing.T) (h storetest.SharedHarness) {
				n++
				prefix := fmt.Sprintf("t%d:", n)
				var nodes []*Store
				for i := range 3 {
					o := o
					o.Prefix, o.Node = prefix, fmt.Sprintf("n%d", i+1)
					nodes = append(nodes, open(t, o))
					h.Nodes, h.Names = append(h.Nodes, nodes[i]), append(h.Names, o.Node)
				}
				h.Pass = func(d time.Duration) { age(t, nodes[0], prefix, d) }
				return h
			})
		})
	}
}

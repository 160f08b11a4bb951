//go:build unix

package redisserver

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is the number of hash slots of a Redis cluster.
const slots = 16384

// StartCluster starts a cluster of n masters without replicas, each with further
// args. All of them agree on who has which slots when it returns.
func StartCluster(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = startNode(t, args...)
	}
	for i, s := range nodes {
		s.expect("OK", "CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1)
		s.expect("OK", "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range nodes[1:] {
		nodes[0].meet(s)
	}
	deadline := time.Now().Add(startTimeout)
	for _, s := range nodes {
		for !s.joined(n) {
			if time.Now().After(deadline) {
				t.Fatalf("the cluster does not form: %s", s.Do("CLUSTER", "INFO"))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nodes
}

// StartReplica adds a node to a cluster that follows one of its masters.
func StartReplica(t testing.TB, nodes []*Server, of int) *Server {
	t.Helper()
	s := startNode(t)
	nodes[0].meet(s)
	id := nodes[of].Do("CLUSTER", "MYID")
	deadline := time.Now().Add(startTimeout)
	for !s.joined(len(nodes)) || !strings.Contains(s.Do("CLUSTER", "NODES"), id) || s.Do("CLUSTER", "REPLICATE", id) != "OK" {
		if time.Now().After(deadline) {
			t.Fatalf("the replica does not join: %s", s.Do("CLUSTER", "NODES"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, n := range nodes {
		for !strings.Contains(n.Do("CLUSTER", "NODES"), "slave "+id) {
			if time.Now().After(deadline) {
				t.Fatalf("the replica is not known: %s", n.Do("CLUSTER", "NODES"))
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return s
}

func startNode(t testing.TB, args ...string) *Server {
	t.Helper()
	return Start(t, append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "5000",
		"--cluster-port", strconv.Itoa(FreePort(t)), "--cluster-require-full-coverage", "no",
	}, args...)...)
}

func (s *Server) meet(other *Server) {
	s.t.Helper()
	host, port, _ := strings.Cut(other.Addr, ":")
	s.expect("OK", "CLUSTER", "MEET", host, port, other.busPort())
}

func (s *Server) joined(n int) bool {
	info := s.Do("CLUSTER", "INFO")
	return strings.Contains(info, "cluster_state:ok") &&
		strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots)) &&
		strings.Contains(info, fmt.Sprintf("cluster_size:%d", n))
}

func (s *Server) busPort() string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

func (s *Server) expect(want string, args ...any) {
	s.t.Helper()
	if got := s.Do(args...); got != want {
		s.t.Fatalf("%v: %s", args, got)
	}
}

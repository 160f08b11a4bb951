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

// StartCluster starts a cluster of n masters without replicas. All of them agree
// on who has which slots when it returns.
func StartCluster(t testing.TB, n int) []*Server {
	t.Helper()
	nodes := make([]*Server, n)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000",
			"--cluster-port", strconv.Itoa(FreePort(t)), "--cluster-require-full-coverage", "no")
	}
	for i, s := range nodes {
		s.expect("OK", "CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1)
		s.expect("OK", "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range nodes[1:] {
		host, port, _ := strings.Cut(s.Addr, ":")
		nodes[0].expect("OK", "CLUSTER", "MEET", host, port, s.busPort())
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

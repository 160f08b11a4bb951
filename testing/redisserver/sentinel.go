//go:build unix

package redisserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// StartSentinel starts one sentinel that decides alone about the master of the
// given name and takes it for dead after half a second.
func StartSentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	binary, dir, port := Binary(t), t.TempDir(), FreePort(t)
	host, masterPort, err := net.SplitHostPort(master.Addr)
	if err != nil {
		t.Fatal(err)
	}
	log, config := filepath.Join(dir, "sentinel.log"), filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s\n"+
		"sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n",
		port, dir, log, name, host, masterPort, name, name)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), t: t, log: log,
		args: []string{binary, config, "--sentinel"},
	}
	s.run()
	t.Cleanup(s.Kill)
	return s
}

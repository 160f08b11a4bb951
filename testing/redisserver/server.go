//go:build unix

// Package redisserver runs a real redis-server for tests, on a free port of the
// loopback interface and in a directory of the test's, and does to it what
// operations do: stop, pause, kill, restart.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout bounds how long a server may take to answer.
const startTimeout = 30 * time.Second

// Server is one redis-server process. It ends with its test.
type Server struct {
	Addr string // host:port

	t    testing.TB
	args []string
	cmd  *exec.Cmd
	done chan struct{}
	log  string
}

// Binary returns the path of redis-server. Without one the test is skipped, or
// fails where HERMES_EDGE_CI is set.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("HERMES_EDGE_CI") != "" {
		t.Fatalf("redis-server is missing; install Redis 6.2 or newer: %v", err)
	}
	t.Skip("redis-server is missing; install Redis 6.2 or newer to run this test")
	return ""
}

// Start starts a server that keeps nothing on disk, unless args say otherwise,
// e.g. "--appendonly", "yes". It answers when Start returns.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary, dir := Binary(t), t.TempDir()
	port := FreePort(t)
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), t: t, log: filepath.Join(dir, "redis.log"),
		args: append([]string{
			binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--logfile", filepath.Join(dir, "redis.log"),
			"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no", "--repl-diskless-sync-delay", "0",
		}, args...),
	}
	s.run()
	t.Cleanup(s.Kill)
	return s
}

// FreePort returns a TCP port that nobody listens on.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// run starts the process and waits until it answers.
func (s *Server) run() {
	s.t.Helper()
	cmd := exec.Command(s.args[0], s.args[1:]...)
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends is what the test is about
		close(done)
	}()
	s.cmd, s.done = cmd, done
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for s.ping(ctx) != nil {
		select {
		case <-done:
			s.t.Fatalf("redis-server ended: %s", s.Log())
		case <-ctx.Done():
			s.t.Fatalf("redis-server does not answer: %s", s.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) ping(ctx context.Context) error {
	c := s.Client()
	defer c.Close()
	err := c.Ping(ctx).Err()
	var reply redis.Error
	if errors.As(err, &reply) && strings.HasPrefix(err.Error(), "NOAUTH") {
		return nil
	}
	return err
}

// Client returns a plain client of the server. The caller closes it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true})
}

// Do sends one command and returns the answer, errors included, as text.
func (s *Server) Do(args ...any) string {
	s.t.Helper()
	c := s.Client()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	v, err := c.Do(ctx, args...).Result()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(v)
}

// Stop ends the server in order, so that it stores what it is told to store.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

func (s *Server) end(how syscall.Signal) {
	s.t.Helper()
	select {
	case <-s.done:
		return
	default:
	}
	s.signal(how)
	s.signal(syscall.SIGCONT)
	<-s.done
}

// Running reports whether the process lives, paused or not.
func (s *Server) Running() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// Restart starts an ended server again on the same port and directory.
func (s *Server) Restart() {
	s.t.Helper()
	s.run()
}

// Pause stops the process; what is sent to it waits.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume wakes a paused process, which then executes what has waited.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Errorf("signal redis-server: %v", err)
	}
}

// Log returns the server's own log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

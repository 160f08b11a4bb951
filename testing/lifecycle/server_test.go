package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience bounds every wait; nothing should ever take as long.
	patience = time.Minute
	poll     = 25 * time.Millisecond
)

// server is an edge process. Its configuration text may hold {PORT}, {ADMIN} and
// {DATA}, which stand for its own.
type server struct {
	t           testing.TB
	binary      string
	dir         string
	port, admin int
	env         []string

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended; read after exited is closed
}

func newServer(t testing.TB, env ...string) *server {
	t.Helper()
	binary, err := e2e.Binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, dir: t.TempDir(), port: freePort(t), admin: freePort(t)}
	s.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir,
		"XDG_DATA_HOME=" + s.dir, "XDG_CONFIG_HOME=" + s.dir,
	}, env...)
	return s
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *server) url() string { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

// write writes a configuration and returns its file.
func (s *server) write(config string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, "Caddyfile")
	text := strings.NewReplacer(
		"{PORT}", strconv.Itoa(s.port), "{ADMIN}", strconv.Itoa(s.admin), "{DATA}", filepath.Join(s.dir, "data"),
	).Replace(config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// run starts the process; it need not get ready.
func (s *server) run(config string) {
	s.t.Helper()
	file := s.write(config)
	output, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer output.Close()
	s.cmd = exec.Command(s.binary, "run", "--config", file, "--adapter", "caddyfile")
	s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = s.env, output, output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.exited = make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, exited := s.cmd, s.exited
	go func() {
		defer close(exited)
		s.err = cmd.Wait()
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended already where the test went well
		<-exited
		if log := s.log(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "\npanic:") {
			s.t.Error("the edge races or panics")
		}
		if s.t.Failed() {
			s.t.Logf("log:\n%s", s.log())
		}
	})
}

// start runs the process and waits until it serves.
func (s *server) start(config string) {
	s.t.Helper()
	s.run(config)
	s.eventually("the edge serves", func() bool {
		select {
		case <-s.exited:
			s.t.Fatalf("ended: %v", s.err)
		default:
		}
		status, _ := s.get("/chat-run/health")
		return status == http.StatusOK
	})
}

func (s *server) logFile() string { return filepath.Join(s.dir, "edge.log") }

func (s *server) log() string {
	content, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// eventually waits for something that only polling can see.
func (s *server) eventually(what string, done func() bool) {
	s.t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			s.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// get asks the site; a failed request is status 0.
func (s *server) get(path string, header ...string) (int, string) {
	return fetch(http.MethodGet, s.url()+path, header...)
}

func (s *server) adminDo(method, path string) (int, string) {
	return fetch(method, fmt.Sprintf("http://127.0.0.1:%d%s", s.admin, path))
}

var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func fetch(method, url string, header ...string) (int, string) {
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// command runs the binary for another purpose than serving.
func (s *server) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Env, cmd.Dir = s.env, s.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// reload applies a configuration, also an equal one.
func (s *server) reload(config string) error {
	s.t.Helper()
	_, err := s.command("reload", "--force", "--config", s.write(config), "--adapter", "caddyfile",
		"--address", fmt.Sprintf("localhost:%d", s.admin))
	return err
}

func (s *server) mustReload(config string) {
	s.t.Helper()
	if err := s.reload(config); err != nil {
		s.t.Fatal(err)
	}
}

// terminate sends SIGTERM and waits for the end of the process.
func (s *server) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	s.awaitExit()
}

func (s *server) awaitExit() {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Fatal("the process does not end")
	}
}

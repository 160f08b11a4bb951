// Package hermesagent runs the real hermes-agent gateway from PyPI in front of a scripted model, for
// end-to-end tests. The first use of a release installs it: about two minutes and up to 250 MB.
package hermesagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakellm"
)

const (
	ciEnv          = "HERMES_EDGE_CI"
	installTimeout = 10 * time.Minute
	readyTimeout   = 2 * time.Minute
	stopTimeout    = 20 * time.Second
	pollInterval   = 100 * time.Millisecond
)

// Config says what to start.
type Config struct {
	// Version is a release on PyPI, for instance Newest.
	Version string
	// Pace is the time between the chunks of a [[slow]] answer; zero means one second.
	Pace time.Duration
}

// Gateway is a running gateway. Its methods are safe for concurrent use.
type Gateway struct {
	// BaseURL is where the API server listens, without a path. The key is Key.
	BaseURL string
	// Home is the gateway's HERMES_HOME.
	Home string
	// Scratch is where the terminal tool works.
	Scratch string
	// Model is the scripted model; its Requests tell what the agent sent.
	Model *fakellm.Server

	logFile string
	process *os.Process
	exited  chan struct{}
	stop    sync.Once
}

// Start installs the release if needed, starts a gateway with a fresh home and waits until it is
// healthy; the test's end stops it. Where the release cannot be installed, for want of Python or of the
// network, the test is skipped, or fails when HERMES_EDGE_CI is set.
func Start(t testing.TB, config Config) *Gateway {
	t.Helper()
	program := require(t, config.Version)
	model := &fakellm.Server{Pace: config.Pace}
	llm := httptest.NewServer(model)
	t.Cleanup(func() {
		llm.CloseClientConnections()
		llm.Close()
	})
	gateway, err := launch(t.TempDir(), program, llm.URL+"/v1")
	if err != nil {
		t.Fatalf("start hermes-agent %s: %v", config.Version, err)
	}
	gateway.Model = model
	t.Cleanup(func() {
		gateway.Stop()
		if t.Failed() {
			t.Logf("end of the log of hermes-agent %s:\n%s", config.Version, gateway.Log())
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := gateway.waitReady(ctx); err != nil {
		t.Fatalf("hermes-agent %s is not ready: %v", config.Version, err)
	}
	return gateway
}

func require(t testing.TB, version string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	program, err := Install(ctx, version)
	if err == nil {
		return program
	}
	if os.Getenv(ciEnv) != "" {
		t.Fatalf("hermes-agent %s is needed here: %v", version, err)
	}
	t.Skipf("hermes-agent %s could not be installed (needs Python 3.11 to 3.13 and PyPI): %v", version, err)
	return ""
}

func launch(folder, program, modelURL string) (*Gateway, error) {
	gateway := &Gateway{
		Home:    filepath.Join(folder, "home"),
		Scratch: filepath.Join(folder, "scratch"),
		logFile: filepath.Join(folder, "gateway.log"),
		exited:  make(chan struct{}),
	}
	for _, path := range []string{gateway.Home, gateway.Scratch} {
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	gateway.BaseURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	if err := writeHome(gateway.Home, modelURL, gateway.Scratch, port); err != nil {
		return nil, err
	}
	return gateway, gateway.run(program)
}

// run starts the process in a group of its own, so that Stop reaches what its tools left behind, and
// without the caller's environment, which may hold keys or another home.
func (g *Gateway) run(program string) error {
	output, err := os.Create(g.logFile)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	command := exec.Command(program, "gateway", "run")
	command.Dir = g.Scratch
	command.Env = []string{"HERMES_HOME=" + g.Home, "HOME=" + g.Scratch, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	command.Stdout = output
	command.Stderr = output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return err
	}
	g.process = command.Process
	go func() {
		defer close(g.exited)
		_ = command.Wait()
	}()
	return nil
}

func (g *Gateway) waitReady(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	err := errors.New("never asked")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no healthy answer: %w", err)
		case <-g.exited:
			return errors.New("the process ended")
		case <-ticker.C:
			if err = health(ctx, client, g.BaseURL); err == nil {
				return nil
			}
		}
	}
}

func health(ctx context.Context, client *http.Client, base string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct{ Status, Platform string }
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return fmt.Errorf("health answer: %w", err)
	}
	if response.StatusCode != http.StatusOK || body.Platform != "hermes-agent" {
		return fmt.Errorf("health answer %d from platform %q", response.StatusCode, body.Platform)
	}
	return nil
}

// Stop ends the gateway as an operator would, with SIGTERM, and kills what is left after 20 seconds.
// It returns when the process is gone; calling it again does nothing.
func (g *Gateway) Stop() {
	g.stop.Do(func() {
		_ = g.process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(stopTimeout)
		defer timer.Stop()
		select {
		case <-g.exited:
		case <-timer.C:
		}
		g.killGroup()
	})
}

// Kill ends the gateway at once, as a crash would, with everything its tools run.
func (g *Gateway) Kill() {
	g.stop.Do(g.killGroup)
}

func (g *Gateway) killGroup() {
	_ = syscall.Kill(-g.process.Pid, syscall.SIGKILL)
	<-g.exited
}

// Log returns the end of what the gateway printed.
func (g *Gateway) Log() string {
	content, err := os.ReadFile(g.logFile)
	if err != nil {
		return err.Error()
	}
	return tail(content)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

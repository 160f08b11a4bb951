package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	readyTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Edge is an edge process with a folder of its own. Its methods are for one
// goroutine at a time.
type Edge struct {
	// URL is where it listens, without a path. It stays the same over restarts.
	URL string

	binary, folder string
	process        *process
	draining       bool
}

// NewEdge writes the configuration into folder; Start runs it.
func NewEdge(folder string, config Config) (*Edge, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	text := config.caddyfile(port, filepath.Join(folder, "data"))
	if err := os.WriteFile(filepath.Join(folder, "Caddyfile"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of the edge: %w", err)
	}
	return &Edge{URL: fmt.Sprintf("http://127.0.0.1:%d", port), binary: binary, folder: folder}, nil
}

// Start runs the edge and waits until its health route says that it serves.
func (e *Edge) Start(ctx context.Context) error {
	if err := e.Launch(); err != nil {
		return err
	}
	child := e.process
	if err := e.AwaitReady(ctx); err != nil {
		child.kill()
		e.process = nil
		return fmt.Errorf("the edge does not get ready: %w\n%s", err, child.log())
	}
	return nil
}

// AwaitReady waits until the health route says that the edge serves.
func (e *Edge) AwaitReady(ctx context.Context) error {
	if e.process == nil {
		return errNotRunning
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	err := errors.New("never asked")
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", ctx.Err(), err)
		case <-e.process.exited:
			return fmt.Errorf("the process ended: %w", e.process.err)
		case <-ticker.C:
			if err = ready(ctx, client, e.URL+"/chat-run/health"); err == nil {
				return nil
			}
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// Stop ends the edge as an operator would and reports an unclean end: an exit
// status, a data race, a panic.
func (e *Edge) Stop() error {
	if e.process == nil {
		return nil
	}
	err := e.process.stop()
	e.process, e.draining = nil, false
	if err != nil {
		return fmt.Errorf("end of the edge: %w", err)
	}
	return nil
}

// Kill ends the edge as a crash would; Start runs it again on the same data.
func (e *Edge) Kill() {
	e.process.kill()
	e.process = nil
}

// Log returns the end of what the edge printed, over all its starts.
func (e *Edge) Log() string {
	return (&process{logFile: filepath.Join(e.folder, "edge.log")}).log()
}

// Faults returns the lines of the whole log that tell of a data race or a panic.
func (e *Edge) Faults() []string {
	content, err := os.ReadFile(filepath.Join(e.folder, "edge.log"))
	if err != nil {
		return []string{err.Error()}
	}
	var faults []string
	for line := range strings.SplitSeq(string(content), "\n") {
		if strings.Contains(line, "DATA RACE") || strings.HasPrefix(line, "panic:") || strings.Contains(line, `"msg":"panic`) {
			faults = append(faults, line)
		}
	}
	return faults
}

// StartEdge runs an edge until the end of the test, which fails with the log if
// the edge does not start, does not stop cleanly, races or panics.
func StartEdge(t testing.TB, config Config) *Edge {
	t.Helper()
	edge, err := NewEdge(t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := edge.Stop(); err != nil {
			t.Error(err)
		}
		for _, fault := range edge.Faults() {
			t.Error("the edge:", fault)
		}
		if t.Failed() {
			t.Logf("log of the edge:\n%s", edge.Log())
		}
	})
	edge.MustStart(t)
	return edge
}

// MustStart is Start with a deadline; the test fails if it does.
func (e *Edge) MustStart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

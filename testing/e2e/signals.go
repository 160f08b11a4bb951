package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

var errNotRunning = errors.New("the edge does not run")

// Launch runs the edge without waiting until it serves.
func (e *Edge) Launch() error {
	// Nothing of the caller's environment may change what the edge fronts.
	env := []string{"HOME=" + e.folder, "PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + e.folder, "XDG_CONFIG_HOME=" + e.folder}
	child, err := startProcess(filepath.Join(e.folder, "edge.log"), env, e.binary,
		"run", "--config", filepath.Join(e.folder, "Caddyfile"), "--adapter", "caddyfile")
	if err != nil {
		return err
	}
	e.process = child
	return nil
}

// Running reports whether the process lives, paused or not.
func (e *Edge) Running() bool {
	if e.process == nil {
		return false
	}
	select {
	case <-e.process.exited:
		return false
	default:
		return true
	}
}

// Pause stops the process in its tracks, as a suspended machine is; Resume wakes it.
func (e *Edge) Pause() error { return e.signal(syscall.SIGSTOP) }

// Resume wakes a paused process.
func (e *Edge) Resume() error { return e.signal(syscall.SIGCONT) }

// Drain asks the process to end, without waiting; Stop waits for it.
func (e *Edge) Drain() error {
	e.draining = true
	return e.signal(syscall.SIGTERM)
}

// Draining reports whether Drain has been called and Stop has not.
func (e *Edge) Draining() bool { return e.draining }

func (e *Edge) signal(s syscall.Signal) error {
	if e.process == nil {
		return errNotRunning
	}
	if err := e.process.command.Process.Signal(s); err != nil {
		return fmt.Errorf("signal the edge: %w", err)
	}
	return nil
}

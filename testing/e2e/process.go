package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopTimeout = 30 * time.Second
	maxLog      = 60_000
)

// process is a child whose output goes to a file.
type process struct {
	command *exec.Cmd
	logFile string
	exited  chan struct{}
	err     error // how it ended; read after exited is closed
	ending  sync.Mutex
}

// startProcess runs a program in a group of its own, so that an interrupt at the
// terminal reaches only the test. Output is appended to logFile.
func startProcess(logFile string, env []string, name string, args ...string) (*process, error) {
	output, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	// The child has its own descriptor.
	defer func() { _ = output.Close() }()
	p := &process{command: exec.Command(name, args...), logFile: logFile, exited: make(chan struct{})}
	p.command.Env = env
	p.command.Stdout = output
	p.command.Stderr = output
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		p.err = p.command.Wait()
	}()
	return p, nil
}

// stop asks with SIGTERM and returns how the process ended; what has not ended
// after 30 seconds is killed, which is an error.
func (p *process) stop() error {
	p.ending.Lock()
	defer p.ending.Unlock()
	select {
	case <-p.exited:
		return p.err
	default:
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return p.err
	case <-timer.C:
		_ = p.command.Process.Kill()
		<-p.exited
		return fmt.Errorf("still running %s after SIGTERM, killed", stopTimeout)
	}
}

// kill ends the process as a crash does.
func (p *process) kill() {
	p.ending.Lock()
	defer p.ending.Unlock()
	_ = p.command.Process.Kill()
	<-p.exited
}

// log returns the end of the output of all runs so far.
func (p *process) log() string {
	content, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(content[max(0, len(content)-maxLog):]))
}

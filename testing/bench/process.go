package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
	keptOutput   = 8 << 10
)

// process is a server under measurement, or the gateway behind it.
type process struct {
	addr  string // host:port it serves
	debug string // URL of a /debug/pprof/ tree, empty if there is none
	gc    string // URL that forces a garbage collection, empty if there is none
	pid   int
	took  time.Duration // from the start to the first accepted connection

	cmd    *exec.Cmd
	exited chan struct{}
	output *tail
}

// launch starts a command on a core (or anyCore) and waits until it accepts
// connections at addr. Nothing of the user's environment reaches it: variables
// such as GOGC, NODE_OPTIONS or the gateway's would change what is measured.
func launch(ctx context.Context, core int, addr, home string, argv ...string) (*process, error) {
	if core != anyCore {
		argv = append([]string{"taskset", "-c", strconv.Itoa(core)}, argv...)
	}
	p := &process{addr: addr, output: new(tail), exited: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	start := time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // how it ended does not matter, that it ended does
		close(p.exited)
	}()
	if err := p.awaitAccept(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s did not start: %w\n%s", argv, err, p.output)
	}
	p.took = time.Since(start)
	return p, nil
}

func (p *process) awaitAccept(ctx context.Context) error {
	return p.await(ctx, func(context.Context) error {
		nc, err := net.DialTimeout("tcp", p.addr, time.Second)
		if err != nil {
			return err
		}
		return nc.Close()
	})
}

// awaitReady waits until a health page answers 200.
func (p *process) awaitReady(ctx context.Context, url string) error {
	return p.await(ctx, func(ctx context.Context) error {
		_, err := fetch(ctx, url)
		return err
	})
}

// await tries again and again, for a limited time and while the process lives.
func (p *process) await(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-p.exited:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return err
		}
	}
}

// debugAt says that the process serves Go profiles at an address.
func (p *process) debugAt(addr string) {
	p.debug = "http://" + addr + "/debug/pprof/"
	p.gc = p.debug + "heap?gc=1"
}

// stop ends the process, by force if it does not end by itself.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // an ended process needs none
	select {
	case <-p.exited:
		return
	case <-time.After(stopTimeout):
	}
	p.kill()
}

// kill ends the process as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an ended process needs none
	<-p.exited
}

// settle forces a garbage collection where the server offers one, twice because
// the first only marks what finalizers and pools still hold.
func (p *process) settle(ctx context.Context) error {
	if p.gc == "" {
		return nil
	}
	for range 2 {
		if _, err := fetch(ctx, p.gc); err != nil {
			return fmt.Errorf("force a garbage collection: %w", err)
		}
	}
	return nil
}

// fetch returns the body of a small local page.
func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return body, err
}

// freeAddr is a loopback address that was free a moment ago.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// tail keeps the end of what a process prints.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - keptOutput; over > 0 {
		t.buf.Next(over)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

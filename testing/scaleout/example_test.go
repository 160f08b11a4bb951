//go:build unix

package scaleout

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/e2e/chat"
	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

var (
	invitation = regexp.MustCompile(`^open http://localhost:\d+/chat-run/#token=(\S+)$`)
	killLine   = regexp.MustCompile(`kill -9 (\d+) +\(node 1\) .* kill -9 (\d+) +\(node 2\)`)
)

// example is the script of the README under test.
type example struct {
	t      *testing.T
	cmd    *exec.Cmd
	port   int
	token  string
	nodes  [2]int // process ids
	exited chan struct{}

	mu     sync.Mutex
	output strings.Builder
}

// threePorts finds three free ports in a row.
func threePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		first := redisserver.FreePort(t)
		free := true
		for i := range 3 {
			l, err := listen(first + i)
			if free = free && err == nil; err == nil {
				_ = l.Close()
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no three free ports in a row")
	return 0
}

func startExample(t *testing.T, gateway *fakegateway.Server, redis *redisserver.Server) *example {
	t.Helper()
	binary, err := e2e.Binary()
	if err != nil {
		t.Fatal(err)
	}
	x := &example{t: t, port: threePorts(t), exited: make(chan struct{})}
	x.cmd = exec.Command("bash", "examples/scale-out/run")
	x.cmd.Dir = "../.."
	x.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "HERMES_EDGE_BINARY=" + binary,
		"REDIS_URL=redis://" + redis.Addr + "/0", "GATEWAY_URL=" + gateway.URL,
		"BALANCER_PORT=" + strconv.Itoa(x.port), "BALANCER_ADMIN=" + strconv.Itoa(threePorts(t)),
	}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := x.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	x.cmd.Stderr = x.cmd.Stdout
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go x.read(pipe, lines)
	t.Cleanup(x.end)
	x.await(lines)
	return x
}

// read ends with the script and everything that it has started.
func (x *example) read(pipe io.Reader, lines chan<- string) {
	defer close(x.exited)
	defer close(lines)
	scanner := bufio.NewScanner(pipe)
	for scanner.Scan() {
		x.mu.Lock()
		x.output.WriteString(scanner.Text() + "\n")
		x.mu.Unlock()
		select {
		case lines <- scanner.Text():
		default: // nobody needs so many
		}
	}
	_ = x.cmd.Wait() // the test looks at how it ended
}

// await waits for what the script tells its user.
func (x *example) await(lines <-chan string) {
	x.t.Helper()
	deadline := time.After(patience)
	for x.token == "" || x.nodes[0] == 0 {
		select {
		case line, ok := <-lines:
			if !ok {
				x.t.Fatalf("the example ended: %s", x.said())
			}
			if found := invitation.FindStringSubmatch(line); found != nil {
				x.token = found[1]
			}
			if found := killLine.FindStringSubmatch(line); found != nil {
				for i := range x.nodes {
					x.nodes[i], _ = strconv.Atoi(found[i+1]) // digits
				}
			}
		case <-deadline:
			x.t.Fatalf("the example does not get ready: %s", x.said())
		}
	}
}

func (x *example) said() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.output.String()
}

// end kills whatever is left.
func (x *example) end() {
	_ = syscall.Kill(-x.cmd.Process.Pid, syscall.SIGKILL)
	<-x.exited
	if x.t.Failed() {
		x.t.Logf("the example said:\n%s", x.said())
	}
}

func (x *example) url() string { return fmt.Sprintf("http://127.0.0.1:%d", x.port) }

// nodeURL is where a node answers itself; nodes count from 1.
func (x *example) nodeURL(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", x.port+n) }

func (x *example) open(kind wire.Kind, before wire.Identity) *chat.Client {
	x.t.Helper()
	return chat.Open(x.t, chat.Options{URLs: []string{x.url()}, Token: x.token, Kind: kind, Before: before})
}

// The example of the README as a new user tries it: clients of all transports go
// through the balancer, a node is killed while it answers, Ctrl-C ends everything.
func TestExample(t *testing.T) {
	t.Parallel()
	gateway := fakegateway.Start(t, fakegateway.Options{})
	redis := redisserver.Start(t)
	x := startExample(t, gateway, redis)

	for _, url := range []string{x.url(), x.nodeURL(1), x.nodeURL(2)} {
		status, body := get(t, url+"/chat-run/", "")
		if status != http.StatusOK || !strings.HasPrefix(body, "<!doctype html>") {
			t.Errorf("page at %s: %d %.80q", url, status, body)
		}
		if status, body := get(t, url+"/chat-run/me", x.token); status != http.StatusOK {
			t.Errorf("the token at %s: %d %s", url, status, body)
		}
	}
	for _, kind := range []wire.Kind{wire.WebSocket, wire.Polling, wire.Upgrade} {
		c := x.open(kind, wire.Identity{})
		session := "by-" + string(kind)
		c.Run(session, "q-"+session, "[[slow 50 10ms]]")
		if got := chat.TextOf(c.UntilThat("the end", ends(session))); got != words(1, 50) {
			t.Errorf("%s: %q", kind, got)
		}
		c.Close()
	}
	x.killTheOwner(gateway)

	if err := x.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.exited:
	case <-time.After(patience):
		t.Fatal("the example does not end")
	}
	for i := range 3 {
		l, err := listen(x.port + i)
		if err != nil {
			t.Errorf("somebody still listens: %v", err)
			continue
		}
		_ = l.Close()
	}
}

// killTheOwner kills the node that carries a run out; a window at the balancer sees
// the run end with its text and the waiting message answered.
func (x *example) killTheOwner(gateway *fakegateway.Server) {
	t := x.t
	t.Helper()
	// Straight at a node, so that it is known who owns the run.
	own := chat.Dial(t, x.nodeURL(1), x.token)
	own.Run("s1", "q1", "[[slow 5000 10ms]]")
	says(own, "word20 ")
	own.Run("s1", "q2", "second")
	own.UntilThat("a waiting message", queueIs(1))
	w := x.open(wire.WebSocket, wire.Identity{})
	w.Resume("s1")
	if err := syscall.Kill(x.nodes[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	seen, w := x.through(w, ends("s1"))
	if !slices.Contains(names(seen), "run.failed") || !strings.HasSuffix(chat.TextOf(seen), "echo: second") {
		t.Errorf("seen at the balancer: %v, …%q", names(seen), tail(chat.TextOf(seen)))
	}
	rows := chat.Rows(w.Resume("s1"))
	if len(rows) != 4 || !strings.HasPrefix(rows[1], "assistant: "+words(1, 20)) || rows[3] != "assistant: echo: second" {
		t.Errorf("transcript %.300q", rows)
	}
	if n := len(gateway.Turns()); n != 5 {
		t.Errorf("%d turns, want 5", n)
	}
}

// through collects events until one fits, over the loss of the connection.
func (x *example) through(w *chat.Client, fits func(chat.Event) bool) ([]chat.Event, *chat.Client) {
	x.t.Helper()
	var all []chat.Event
	deadline := time.After(patience)
	for {
		e, ok := w.TryNext(deadline)
		switch {
		case ok:
			if all = append(all, e); fits(e) {
				return all, w
			}
		case w.Ended():
			before := w.Identity()
			w = x.open(wire.WebSocket, before)
			if !w.Recovered() {
				x.t.Log("the window begins anew")
				w.Emit("resume", map[string]any{"session_id": "s1"})
			}
		default:
			x.t.Fatalf("waited in vain, got:\n%s", chat.List(all[max(0, len(all)-20):]))
		}
	}
}

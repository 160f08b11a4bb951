package engineio

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

// counts is an Observer that keeps everything.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int)
	}
	c.n[name] += n
}

func (c *counts) get(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

func (c *counts) ConnectionOpened(t Transport) { c.add("opened "+t.String(), 1) }
func (c *counts) ConnectionUpgraded()          { c.add("upgraded", 1) }
func (c *counts) ConnectionClosed(t Transport, r Reason) {
	c.add("closed "+t.String()+" "+r.String(), 1)
}
func (c *counts) PacketsReceived(packets, bytes int) {
	c.add("packets in", packets)
	c.add("bytes in", bytes)
}
func (c *counts) PacketsSent(packets, _ int) { c.add("packets out", packets) }
func (c *counts) SlowConsumer(a SlowAction)  { c.add("slow "+string(a), 1) }

func TestObserver(t *testing.T) {
	o := &counts{}
	r := newRig(t, wiretest.Loopback, Options{Observer: o, SendBuffer: 1000})
	url, _ := r.OpenPolling(path)
	r.Post(url, "4hello\x1e4you")
	r.Get(url)
	c := r.upgrade(t, url)
	c.Text("5", "1")
	c.WantClose(1000)
	r.wantReason(t, ReasonTransportClose)
	<-r.opened

	r.dial(t)
	conn := <-r.opened
	for range 2 {
		conn.mu.Lock()
		conn.flushing = true // as if the network took nothing
		conn.mu.Unlock()
		_ = conn.Send(Message{Data: []byte(strings.Repeat("x", 900))})
	}
	conn.handOverWriting()
	conn.Close(ReasonServerClose)
	r.wantReason(t, ReasonServerClose)
	for o.get("closed websocket server_close") == 0 {
		runtime.Gosched()
	}
	for name, want := range map[string]int{
		"opened polling": 1, "opened websocket": 1, "upgraded": 1,
		"closed websocket transport_close": 1, "closed websocket server_close": 1,
		"packets in": 2, "bytes in": 8, "slow refused": 1,
	} {
		if got := o.get(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	if got := o.get("packets out"); got < 2 {
		t.Errorf("%d packets sent", got)
	}
}

// The labels are an interface to dashboards: changing one is a decision.
func TestReasonLabels(t *testing.T) {
	for r, want := range map[Reason]string{
		ReasonNone: "none", ReasonTransportClose: "transport_close", ReasonTransportError: "transport_error",
		ReasonPingTimeout: "ping_timeout", ReasonParseError: "parse_error", ReasonTooBig: "too_big",
		ReasonSlowConsumer: "slow_consumer", ReasonConnectTimeout: "connect_timeout", ReasonServerClose: "server_close",
		ReasonCredentials: "credentials", ReasonMoved: "moved", ReasonShutdown: "shutdown",
		ReasonClientNamespace: "client_namespace", ReasonServerNamespace: "server_namespace", Reason(200): "none",
	} {
		if r.String() != want {
			t.Errorf("%d is %q, want %q", r, r, want)
		}
	}
	if ReasonServerNamespace.Reconnects() || !ReasonShutdown.Reconnects() {
		t.Error("which reasons bring a client back is part of the protocol")
	}
}

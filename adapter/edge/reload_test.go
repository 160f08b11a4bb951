package edge

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// CAD-01, invariant 8: reloads with and without a change, while answers stream,
// drop no connection and no text.
func TestReloadsUnderLoadCAD01(t *testing.T) {
	e := start(t, nil)
	const clients, deltas = 8, 150
	e.gw.SetScript(func(t *fakegateway.Turn) {
		for i := range deltas {
			t.Delta(fmt.Sprintf("%d ", i))
			if !t.Wait(time.Millisecond) {
				return
			}
		}
		t.Complete(fakegateway.Usage{Input: 1, Output: 1})
	})
	var want strings.Builder
	for i := range deltas {
		fmt.Fprintf(&want, "%d ", i)
	}
	var streaming sync.WaitGroup
	for i := range clients {
		c := e.client(aliceToken)
		c.run(fmt.Sprintf("s%d", i), fmt.Sprintf("q%d", i), "go")
		streaming.Go(func() {
			var got strings.Builder
			for {
				r, err := c.take()
				if err != nil || r.name == "run.failed" {
					t.Errorf("client %d: %v %v", i, r, err)
					return
				}
				if got.WriteString(r.text("delta")); r.name == "run.completed" {
					break
				}
			}
			if got.String() != want.String() {
				t.Errorf("client %d: text %s", i, got.String())
			}
		})
	}
	last := e.attached
	for i := range 20 {
		next := e.settings
		next.Gateways = map[string]gateway.Config{"default": {BaseURL: e.gw.URL, ReadTimeout: time.Duration(1+i%2) * time.Minute}}
		attached := e.attach(next)
		last.Detach()
		last = attached
	}
	streaming.Wait()
	if got := e.core.sockets.count(); got != clients {
		t.Errorf("%d connections are left of %d", got, clients)
	}
}

// R5: a shorter queue holds for what comes; what waits already stays.
func TestQueueLimitR5(t *testing.T) {
	e := start(t, nil)
	c := e.client(aliceToken)
	c.run("s1", "q0", "[[hold]]")
	for _, qid := range []string{"q1", "q2"} {
		c.run("s1", qid, "wait")
		c.next("run.queued")
	}
	next := e.settings
	next.Limits.QueueLength = 1
	e.attach(next)
	c.run("s1", "q3", "one too many")
	if r := c.next("run.failed"); r.text("queue_id") != "q3" {
		t.Errorf("refused %v", r)
	}
	e.gw.Release()
	for range 3 {
		c.next("run.completed")
	}
}

// R5: the size of messages and the ping times are those of the next handshakes.
func TestNextHandshakeR5(t *testing.T) {
	e := start(t, nil)
	next := e.settings
	next.Limits.MessageSize, next.Timeouts.PingInterval = 2_000_000, 7*time.Second
	e.attach(next)
	var open struct{ MaxPayload, PingInterval int64 }
	if err := json.Unmarshal([]byte(dial(t, e.server.URL, "").open), &open); err != nil {
		t.Fatal(err)
	}
	if open.MaxPayload != 2_000_000 || open.PingInterval != 7000 {
		t.Errorf("%+v", open)
	}
}

// A gateway client is shared by equal configurations only.
func TestEqualGateway(t *testing.T) {
	base := func() gateway.Config {
		return gateway.Config{
			BaseURL: "http://gw", Headers: http.Header{"X-Access": {"a"}}, ReadTimeout: time.Minute, Model: "m",
			TLS: &tls.Config{RootCAs: x509.NewCertPool()},
		}
	}
	pool := upstreams{models: func(string) string { return "" }}
	first, err := pool.take(base(), "/home")
	if err != nil {
		t.Fatal(err)
	}
	if same, err := pool.take(base(), "/home"); err != nil || same != first {
		t.Errorf("an equal configuration has another client, %v", err)
	}
	changes := map[string]func(*gateway.Config){
		"address":  func(c *gateway.Config) { c.BaseURL = "http://other" },
		"key":      func(c *gateway.Config) { c.Key = gateway.StaticKey("k", "api_key") },
		"headers":  func(c *gateway.Config) { c.Headers = http.Header{"X-Access": {"b"}} },
		"timeouts": func(c *gateway.Config) { c.ConnectTimeout = time.Second },
		"store":    func(c *gateway.Config) { c.Store = true },
		"model":    func(c *gateway.Config) { c.Model = "other" },
		"TLS":      func(c *gateway.Config) { c.TLS = &tls.Config{InsecureSkipVerify: true} },
		"no TLS":   func(c *gateway.Config) { c.TLS = nil },
	}
	for name, change := range changes {
		cfg := base()
		change(&cfg)
		u, err := pool.take(cfg, "/home")
		if err != nil || u == first {
			t.Errorf("%s: the same client, %v", name, err)
			continue
		}
		pool.release(u)
	}
	if u, err := pool.take(base(), "/other"); err != nil || u == first {
		t.Errorf("another home: the same client, %v", err)
	} else {
		pool.release(u)
	}
	pool.release(first)
	pool.release(first)
	if len(pool.live) != 0 {
		t.Errorf("%d clients are left", len(pool.live))
	}
}

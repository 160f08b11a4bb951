package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an event that must come.
const patience = 20 * time.Second

// received is one event as a socket got it.
type received struct {
	name     string
	data     map[string]any
	volatile bool
}

func (r received) str(key string) string { s, _ := r.data[key].(string); return s }
func (r received) num(key string) int    { n, _ := r.data[key].(float64); return int(n) }

// client is a socket that records what it gets.
type client struct {
	t    *testing.T
	e    *engine.Engine
	id   string
	user *auth.Principal

	mu      sync.Mutex
	changed chan struct{}
	events  []received
	rooms   map[string]engine.Room
	full    bool
	drained []func()
	gone    bool
	closed  engine.CloseReason
	left    []string
}

var _ engine.Socket = (*client)(nil)

func (c *client) ID() string { return c.id }
func (c *client) Principal() *auth.Principal {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user
}
func (c *client) Profile() string { return "default" }

func (c *client) Send(e *engine.Event, r engine.Room) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full {
		return false
	}
	var data map[string]any
	if err := json.Unmarshal(e.Payload, &data); err != nil {
		c.t.Errorf("%s: payload is not JSON: %v", e.Name, err)
	}
	if e.Name != "resumed" && data["event"] != e.Name {
		c.t.Errorf("CR-11: payload.event is %v on %s", data["event"], e.Name)
	}
	c.events = append(c.events, received{e.Name, data, r.Volatile})
	if r.SessionID != "" {
		c.rooms[r.SessionID] = r
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return true
}

func (c *client) Drained(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drained = append(c.drained, f)
}

func (c *client) setFull(full bool) {
	c.mu.Lock()
	c.full = full
	fs := c.drained
	if !full {
		c.drained = nil
	}
	c.mu.Unlock()
	if !full {
		for _, f := range fs {
			f()
		}
	}
}

func (c *client) Gone() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.gone }
func (c *client) Left(sid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, sid)
}
func (c *client) Close(r engine.CloseReason) { c.mu.Lock(); defer c.mu.Unlock(); c.closed = r }

func (c *client) leave() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.e.Leave(c)
}

// wait answers the first event from index from on that fits, and the index behind
// it.
func (c *client) wait(from int, what string, fits func(received) bool) (received, int) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		for i := from; i < len(c.events); i++ {
			if fits(c.events[i]) {
				ev := c.events[i]
				c.mu.Unlock()
				return ev, i + 1
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("%s: no %s after event %d; got %s", c.id, what, from, c.trace())
		}
	}
}

func (c *client) waitFor(from int, name string) (received, int) {
	c.t.Helper()
	return c.wait(from, name, func(r received) bool { return r.name == name })
}

// seen answers the events from an index on.
func (c *client) seen(from int) []received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events[min(from, len(c.events)):])
}

func (c *client) trace() string {
	var b strings.Builder
	for _, e := range c.seen(0) {
		fmt.Fprintf(&b, "%s%v ", e.name, e.data)
	}
	return b.String()
}

func (c *client) text(from int) string {
	var b strings.Builder
	for _, e := range c.seen(from) {
		if e.name == "message.delta" {
			b.WriteString(e.str("delta"))
		}
	}
	return b.String()
}

func (c *client) run(sid, qid, input string, more ...string) {
	payload := map[string]any{"session_id": sid, "input": input, "source": "cli"}
	if qid != "" {
		payload["queue_id"] = qid
	}
	for i := 0; i+1 < len(more); i += 2 {
		payload[more[i]] = more[i+1]
	}
	c.e.Run(context.Background(), c, encode(payload))
}

func (c *client) resume(sid string) received {
	c.t.Helper()
	at := len(c.seen(0))
	c.e.Resume(context.Background(), c, encode(map[string]any{"session_id": sid}))
	ev, _ := c.waitFor(at, "resumed")
	return ev
}

func (c *client) abort(sid string) {
	c.e.Abort(context.Background(), c, encode(map[string]any{"session_id": sid}))
}

func encode(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// script is an executor whose runs do what the test says, one call each.
type script struct {
	calls chan *call
}

// call is one run inside the executor. The test drives it step by step.
type call struct {
	turn  engine.Turn
	sink  engine.Sink
	ctx   context.Context
	steps chan func()
	out   chan engine.Outcome
}

func (x *script) Run(ctx context.Context, turn engine.Turn, sink engine.Sink) engine.Outcome {
	c := &call{turn: turn, sink: sink, ctx: ctx, steps: make(chan func()), out: make(chan engine.Outcome, 1)}
	select {
	case x.calls <- c:
	case <-ctx.Done():
		return engine.Outcome{Failed: true, Stopped: true}
	}
	for {
		select {
		case f := <-c.steps:
			f()
			sink.Flush()
		case out := <-c.out:
			return out
		case <-ctx.Done():
			return engine.Outcome{Failed: true}
		}
	}
}

// do executes f on the executor's goroutine.
func (c *call) do(f func()) {
	done := make(chan struct{})
	c.steps <- func() { f(); close(done) }
	<-done
}

func (c *call) start(t *testing.T, id string) {
	t.Helper()
	c.do(func() {
		if err := c.sink.Sending(c.ctx); err != nil {
			t.Errorf("Sending: %v", err)
		}
		c.sink.Started(id, "in_progress")
	})
}

func (c *call) say(text string) { c.do(func() { c.sink.Text(text) }) }
func (c *call) end(out engine.Outcome) {
	c.out <- out
}

// rig is an engine on an in-memory store with a scripted executor.
type rig struct {
	t     *testing.T
	st    *memory.Store
	clock *clock
	x     *script
	e     *engine.Engine
	n     int

	gauges *gauges
}

type clock struct {
	mu  sync.Mutex
	now int64
}

func (c *clock) Now() int64 { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d.Milliseconds()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: &clock{now: 1_800_000_000_000}, x: &script{calls: make(chan *call)}, gauges: &gauges{}}
	r.st = memory.New(memory.Options{Clock: r.clock.Now})
	r.e = r.node("n1")
	return r
}

// node starts one more engine on the same store.
func (r *rig) node(name string) *engine.Engine {
	r.t.Helper()
	e := engine.New(engine.Config{
		Store: r.st, Node: name, Logger: zaptest.NewLogger(r.t, zaptest.Level(zap.ErrorLevel)),
		Executors: func(profile string) (string, engine.Executor, error) { return "gateway", r.x, nil },
		Profiles:  func() []string { return []string{"default", "work"} },
		Limits:    func() engine.Limits { return engine.Limits{} },
		Metrics:   r.gauges,
	})
	if err := e.Start(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Drain(ctx)
		e.Close()
	})
	return e
}

func (r *rig) client(user string, profiles ...string) *client {
	r.n++
	if profiles == nil {
		profiles = []string{"default"}
	}
	c := &client{
		t: r.t, e: r.e, id: fmt.Sprintf("%s-%d", user, r.n), user: &auth.Principal{User: user, Profiles: profiles},
		changed: make(chan struct{}), rooms: map[string]engine.Room{},
	}
	return c
}

// next answers the next run that reaches the executor.
func (r *rig) next() *call {
	r.t.Helper()
	select {
	case c := <-r.x.calls:
		return c
	case <-time.After(patience):
		r.t.Fatal("no run reached the executor")
		return nil
	}
}

func (r *rig) head(sid string) *store.Session {
	r.t.Helper()
	heads, err := r.st.Head(context.Background(), sid)
	if err != nil {
		r.t.Fatal(err)
	}
	return &heads[0]
}

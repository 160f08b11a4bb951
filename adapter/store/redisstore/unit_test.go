package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func TestEscape(t *testing.T) {
	for id, want := range map[string]string{
		"aZ09._~-": "aZ09._~-", "a}:x": "a%7D%3Ax", "{s:a}": "%7Bs%3Aa%7D", "%2f": "%252f", "é": "%C3%A9", "a b": "a%20b",
	} {
		if got := escape(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	for _, k := range []string{"%", "%4", "%zz"} {
		if _, err := unescape(k); err == nil {
			t.Errorf("%q was read", k)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a}:x")
	f.Fuzz(func(t *testing.T, id string) {
		k := escape(id)
		if strings.ContainsAny(k, "{}: ") {
			t.Fatalf("%q as %q", id, k)
		}
		if back, err := unescape(k); err != nil || back != id {
			t.Fatalf("%q came back as %q, %v", id, back, err)
		}
	})
}

func FuzzWire(f *testing.F) {
	f.Add("3:abc0:2:xy", "ep 7 z0 AD")
	f.Fuzz(func(_ *testing.T, ids, hint string) {
		netstrings(ids)
		parseHint(hint)
		parseProcess(hint)
		_, _, _ = streamed([]any{ids, []any{hint}})
	})
}

func TestNetstrings(t *testing.T) {
	if got := netstrings("3:a:b0:2:xy"); !slices.Equal(got, []string{"a:b", "", "xy"}) {
		t.Fatalf("%q", got)
	}
	for _, broken := range []string{"", "x", "9:abc", "-1:a"} {
		if got := netstrings(broken); len(got) != 0 {
			t.Errorf("%q: %q", broken, got)
		}
	}
}

func TestParseHint(t *testing.T) {
	h, at, ok := parseHint("ep 12 abc0 A 1700")
	want := store.Hint{Incarnation: "ep", Head: store.Position{Offset: 12, Stamp: "abc0"}, Abort: true}
	if !ok || h != want || at != 1700 {
		t.Fatalf("%+v", h)
	}
	if h, at, ok := parseHint("ep 12 abc0 AD"); !ok || !h.Deleted || at != 0 {
		t.Fatalf("%+v", h)
	}
	for _, broken := range []string{"", "probe", "ep 1 z", "ep x z A"} {
		if _, _, ok := parseHint(broken); ok {
			t.Errorf("%q was read", broken)
		}
	}
}

// TestScripts: each script names its keys, and those that end a session's idle or
// busy time have all of the keys whose life that changes.
func TestScripts(t *testing.T) {
	o := Options{Addrs: []string{"h:1"}, Node: "n"}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	all, err := load(&o)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range all {
		body, err := sources.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		if len(s.keys) == 0 {
			t.Errorf("%s names no keys", name)
		}
		for k := range strings.FieldsFuncSeq(string(body), func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz.", r) }) {
			if k, ok := strings.CutPrefix(k, "key."); ok && !slices.Contains(s.keys, k) {
				t.Errorf("%s uses key %s and does not name it", name, k)
			}
		}
		if !strings.Contains(string(body), "commit(channel)") {
			continue
		}
		for _, k := range []string{"h", "t", "e", "d", "dx", "z"} {
			if !slices.Contains(s.keys, k) {
				t.Errorf("%s changes lifetimes and does not name key %s", name, k)
			}
		}
	}
}

// TestClock: the store's time is bounded by its answers from both sides, never
// ahead, and not moved by one that was slow (H39).
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hour = 3_600_000
		c := newClock()
		server := func() int64 { return time.Now().UnixMilli() + hour } // its clock is an hour ahead
		call := func(there, back time.Duration) {
			sent := time.Now()
			time.Sleep(there)
			at := server()
			time.Sleep(back)
			c.observe(sent, at)
		}
		within := func(lag int64) {
			t.Helper()
			if d := server() - c.now(); d < 0 || d > lag {
				t.Fatalf("%d ms behind", d)
			}
		}
		call(time.Millisecond, 2*time.Millisecond)
		within(2)
		call(time.Millisecond, 900*time.Millisecond)
		within(3)
		call(900*time.Millisecond, 0)
		within(3)
		time.Sleep(time.Hour)
		within(3)
		c.observe(time.Now(), 0)
		within(3)
		c.observe(time.Now(), server()-2*hour) // its clock was set back
		if d := c.now() - (server() - 2*hour); d < -1 || d > 1 {
			t.Fatalf("%d ms from a clock that was set back", d)
		}
	})
}

func TestMapError(t *testing.T) {
	ctx := context.Background()
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for _, c := range []struct {
		err  error
		want error
	}{
		{serverError("LOADING Redis is loading"), store.ErrUnavailable},
		{serverError("OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1."), store.ErrUnavailable},
		{serverError("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed"), store.ErrUnavailable},
		{serverError("NOREPLICAS Not enough good replicas to write."), store.ErrUnavailable},
		{serverError("ERR user_script:9: TOONEW script: 1"), store.ErrTooNew},
		{serverError("ERR user_script:9: attempt to index a nil value"), store.ErrUnknown},
		{dial, store.ErrUnavailable},
		{fmt.Errorf("wrapped: %w", dial), store.ErrUnavailable},
		{errOpen, store.ErrUnavailable},
		{errCrowded, store.ErrUnavailable},
		{errClosed, store.ErrUnavailable},
		{redis.ErrPoolTimeout, store.ErrUnavailable},
		{redis.ErrClosed, store.ErrUnavailable},
		{context.DeadlineExceeded, store.ErrUnknown},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, store.ErrUnknown},
	} {
		got := mapError(ctx, c.err)
		if !errors.Is(got, c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
		if errors.Is(got, store.ErrUnknown) && errors.Is(got, store.ErrUnavailable) {
			t.Errorf("%v is both", c.err)
		}
	}
	if mapError(ctx, nil) != nil {
		t.Error("no error became one")
	}
}

type serverError string

func (r serverError) Error() string { return string(r) }
func (serverError) RedisError()     {}

// TestBreaker: it opens when nothing is answered for a while, not when one call
// is slow beside others that are answered; it fails at once while it is open; and
// it closes with the first answer to a probe.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var probes probes
		var alive atomic.Bool
		var pings atomic.Int64
		b := &breaker{
			addr: "a", after: breakAfter, log: zap.NewNop(), ctx: ctx, probes: &probes, observer: unobserved{},
			ping: func(context.Context) error {
				if pings.Add(1); alive.Load() {
					return nil
				}
				return context.DeadlineExceeded
			},
		}
		defer probes.wait()
		defer cancel()
		slow := b.ProcessHook(func(context.Context, redis.Cmder) error {
			time.Sleep(time.Second)
			return context.DeadlineExceeded
		})
		fast := b.ProcessHook(func(context.Context, redis.Cmder) error { return nil })
		do := func(h redis.ProcessHook) error { return h(ctx, redis.NewCmd(ctx)) }

		go do(slow)
		for range 10 {
			time.Sleep(breakAfter / 2)
			if err := do(fast); err != nil {
				t.Fatalf("one call is slow: %v", err)
			}
		}
		time.Sleep(time.Second)
		go do(slow)
		time.Sleep(breakAfter + time.Millisecond)
		began := time.Now()
		if err := do(fast); !errors.Is(err, errOpen) || time.Since(began) != 0 {
			t.Fatalf("nothing is answered: %v after %v", err, time.Since(began))
		}
		piped := b.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return nil })
		cmd := redis.NewCmd(ctx)
		if err := piped(ctx, []redis.Cmder{cmd}); !errors.Is(err, errOpen) || !errors.Is(cmd.Err(), errOpen) {
			t.Fatalf("a pipeline: %v, %v", err, cmd.Err())
		}
		time.Sleep(time.Minute)
		if n := pings.Load(); n < 40 || n > 130 { // one a second, with jitter of half of that either way
			t.Fatalf("%d probes in a minute", n)
		}
		alive.Store(true)
		time.Sleep(2 * probeLongest)
		if err := do(fast); err != nil {
			t.Fatalf("it answers again: %v", err)
		}
		refused := b.ProcessHook(func(context.Context, redis.Cmder) error {
			return &net.OpError{Op: "dial", Err: errors.New("refused")}
		})
		if err := do(refused); !isDial(err) {
			t.Fatal(err)
		}
		if err := do(fast); !errors.Is(err, errOpen) {
			t.Fatalf("nobody to connect to: %v", err)
		}
	})
}

// A breaker that opens while the store closes starts nothing that is left behind.
func TestNoProbeAfterClose(t *testing.T) {
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		var all probes
		b := &breaker{addr: "a", after: breakAfter, log: zap.NewNop(), ctx: ctx, probes: &all, observer: unobserved{}, ping: func(context.Context) error { return nil }}
		tripped := make(chan struct{})
		go func() {
			defer close(tripped)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.trip(errOpen)
		}()
		cancel()
		all.wait()
		<-tripped
	}
}

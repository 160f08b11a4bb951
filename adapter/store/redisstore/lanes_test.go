//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// witness is an Observer that counts.
type witness struct {
	calls, pipelines, piped, longest, opened, closed, hints, confirmed, missed atomic.Int64
	lag                                                                        atomic.Int64
	generation                                                                 atomic.Uint64

	mu      sync.Mutex
	classes map[string]int
}

func (w *witness) Call(script string, took time.Duration, class string) {
	w.calls.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.classes == nil {
		w.classes = make(map[string]int)
	}
	if took > 0 {
		w.classes[script+" "+class]++
	}
}

func (w *witness) Pipeline(calls int) {
	w.pipelines.Add(1)
	w.piped.Add(int64(calls))
	for {
		n := w.longest.Load()
		if int64(calls) <= n || w.longest.CompareAndSwap(n, int64(calls)) {
			return
		}
	}
}

func (w *witness) Breaker(_ string, open bool) {
	if open {
		w.opened.Add(1)
	} else {
		w.closed.Add(1)
	}
}

func (w *witness) Hint(lag time.Duration) {
	w.hints.Add(1)
	w.lag.Store(int64(lag))
}

func (w *witness) Generation(n uint64) { w.generation.Store(n) }

func (w *witness) Replicated(confirmed bool) {
	if confirmed {
		w.confirmed.Add(1)
	} else {
		w.missed.Add(1)
	}
}

// many runs a function for many sessions at once.
func many(n int, run func(i int)) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { run(i) })
	}
	work.Wait()
}

// TestPipelines: calls of many sessions share pipelines; each gets its own answer
// or error, scripts that the server has forgotten are loaded again for those that
// need them, and nothing is written twice.
func TestPipelines(t *testing.T) {
	for name, deploy := range map[string]func(*testing.T, Options) (*Store, []*redisserver.Server){
		"standalone": func(t *testing.T, o Options) (*Store, []*redisserver.Server) {
			server := redisserver.Start(t)
			o.Addrs = []string{server.Addr}
			return open(t, o), []*redisserver.Server{server}
		},
		"cluster": func(t *testing.T, o Options) (*Store, []*redisserver.Server) {
			nodes := redisserver.StartCluster(t, 3)
			return openCluster(t, nodes, o), nodes
		},
	} {
		t.Run(name, func(t *testing.T) {
			const sessions, batches = 60, 20
			w := &witness{}
			st, servers := deploy(t, Options{Observer: w})
			sid := func(i int) string { return fmt.Sprint("s", i) }
			for i := range sessions {
				submitted(t, st, offer(sid(i), "q"), store.Started)
			}
			broken := sid(7)
			if err := st.current.client.HSet(t.Context(), st.sessionKey("h", broken), "v", layoutVersion+1).Err(); err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			var flushing sync.WaitGroup
			flushing.Go(func() {
				for {
					for _, s := range servers {
						s.Do("SCRIPT", "FLUSH")
					}
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
			many(sessions, func(i int) {
				for seq := int64(1); seq <= batches; seq++ {
					res, err := st.Append(t.Context(), deltas(sid(i), "run-q", seq, 1))
					if sid(i) == broken {
						if !errors.Is(err, store.ErrTooNew) {
							t.Errorf("%s: %v", broken, err)
						}
					} else if err != nil || res.Code != store.OK {
						t.Errorf("%s, %d: %s, %v", sid(i), seq, res.Code, err)
						return
					}
				}
			})
			close(stop)
			flushing.Wait()
			for i := range sessions {
				if sid(i) == broken {
					continue
				}
				if h := headOf(t, st, sid(i)); h.Head.Offset != 1+batches {
					t.Fatalf("%s has %d entries", sid(i), h.Head.Offset)
				}
			}
			if w.longest.Load() < 5 {
				t.Errorf("the longest pipeline had %d calls", w.longest.Load())
			}
		})
	}
}

// TestPipelinesWhilePaused: while the server stands still callers leave when their
// context ends or the call has taken too long; soon nothing is taken any more. What
// was said to be not executed has not been, and nothing was executed twice.
func TestPipelinesWhilePaused(t *testing.T) {
	const sessions = 80
	server := redisserver.Start(t)
	w := &witness{}
	st := open(t, Options{Addrs: []string{server.Addr}, Observer: w, Timeout: 600 * time.Millisecond, BreakAfter: 300 * time.Millisecond})
	sid := func(i int) string { return fmt.Sprint("s", i) }
	for i := range sessions {
		submitted(t, st, offer(sid(i), "q"), store.Started)
	}
	server.Pause()
	errs := make([]error, sessions)
	many(sessions, func(i int) {
		ctx, cancel := context.WithCancel(t.Context())
		if i%4 == 3 {
			cancel()
		}
		defer cancel()
		_, errs[i] = st.Append(ctx, deltas(sid(i), "run-q", 1, 1))
	})
	eventually(t, "calls are refused", func() bool {
		_, err := st.Append(t.Context(), deltas(sid(0), "run-q", 1, 1))
		return errors.Is(err, errOpen)
	})
	server.Resume()
	answers(t, st)
	for i, err := range errs {
		n := headOf(t, st, sid(i)).Head.Offset - 1
		switch {
		case errors.Is(err, store.ErrUnavailable) && n != 0 && i != 0, n > 1, err == nil:
			t.Errorf("%s: %d entries, %v", sid(i), n, err)
		}
	}
	if w.opened.Load() == 0 || w.closed.Load() == 0 {
		t.Errorf("the observer was told of %d openings and %d closings", w.opened.Load(), w.closed.Load())
	}
}

// TestNoGrowth: while Redis is away, standing still or dead, thousands of calls
// leave neither goroutines nor memory behind (RED).
func TestNoGrowth(t *testing.T) {
	for name, stop := range map[string]func(*redisserver.Server){
		"paused": (*redisserver.Server).Pause,
		"dead":   (*redisserver.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.Start(t)
			st := open(t, Options{Addrs: []string{server.Addr}, Timeout: 400 * time.Millisecond, BreakAfter: 300 * time.Millisecond})
			submitted(t, st, offer("s", "q"), store.Started)
			stop(server)
			outage := func(calls int) {
				many(50, func(i int) {
					for n := range calls {
						b := deltas(fmt.Sprintf("s%d-%d", i, n), "run-q", 1, 32)
						if _, err := st.Append(t.Context(), b); err == nil {
							t.Error("a server that is away answers")
						}
						if n%100 == 0 {
							if sub, err := st.Subscribe(t.Context(), b.SID, func(store.Hint) {}); err == nil {
								t.Error("a subscription to a server that is away is established")
								sub.Close()
							}
						}
					}
				})
			}
			measure := func() (goroutines int, heap uint64) {
				runtime.GC()
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return runtime.NumGoroutine(), m.HeapAlloc
			}
			outage(20)
			g0, h0 := measure()
			outage(200)
			g1, h1 := measure()
			if g1 > g0+5 || h1 > h0+1<<20 {
				t.Errorf("%d goroutines and %d bytes after, %d and %d before", g1, h1, g0, h0)
			}
		})
	}
}

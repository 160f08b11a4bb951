//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// untilKnown repeats a call with the same arguments until its outcome is known.
func untilKnown[R any](t *testing.T, call func() (R, error)) R {
	t.Helper()
	for {
		r, err := call()
		if err == nil {
			return r
		}
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknown) {
			t.Error(err)
			return r
		}
		<-time.After(10 * time.Millisecond) // as an engine does between two tries
	}
}

// turn is a message from its acceptance to its end.
func turn(t *testing.T, st *Store, sid string, n int) {
	t.Helper()
	qid, ctx := fmt.Sprintf("q%04d", n), context.Background()
	code := untilKnown(t, func() (store.SubmitResult, error) { return st.Submit(ctx, offer(sid, qid)) }).Code
	if code != store.Started {
		t.Errorf("%s: Submit %s: %s", sid, qid, code)
	}
	b := deltas(sid, "run-"+qid, 1, 3)
	b.Rows = []store.NewRow{{Role: store.RoleAssistant, Data: []byte("answer to " + qid)}}
	if code := untilKnown(t, func() (store.OwnerResult, error) { return st.Append(ctx, b) }).Code; code != store.OK && code != store.Dup {
		t.Errorf("%s: Append %s: %s", sid, qid, code)
	}
	end := store.FinishArgs{Batch: deltas(sid, "run-"+qid, 2, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
	if code := untilKnown(t, func() (store.FinishResult, error) { return st.Finish(ctx, end) }).Code; code != store.Idle {
		t.Errorf("%s: Finish %s: %s", sid, qid, code)
	}
}

// TestTurnsUnderFaults: whatever happens to servers and connections, each message
// is accepted once and ends once, in order, and what was answered stays.
func TestTurnsUnderFaults(t *testing.T) {
	type fault func(*testing.T, *Store, []*redisserver.Server)
	drop := func(_ *testing.T, _ *Store, servers []*redisserver.Server) {
		for _, s := range servers {
			s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
	forget := func(_ *testing.T, _ *Store, servers []*redisserver.Server) { servers[0].Do("SCRIPT", "FLUSH") }
	crash := func(_ *testing.T, _ *Store, servers []*redisserver.Server) {
		servers[0].Kill()
		servers[0].Restart()
	}
	pause := func(t *testing.T, st *Store, servers []*redisserver.Server) {
		servers[0].Pause()
		eventually(t, "the breaker opens", func() bool { return !st.Available() })
		servers[0].Resume()
	}
	for name, c := range map[string]struct {
		open   func(*testing.T) (*Store, []*redisserver.Server)
		faults []fault
	}{
		"standalone": {
			open: func(t *testing.T) (*Store, []*redisserver.Server) {
				s := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
				return open(t, Options{Addrs: []string{s.Addr}, Timeout: 500 * time.Millisecond, BreakAfter: 300 * time.Millisecond}), []*redisserver.Server{s}
			},
			faults: []fault{drop, forget, crash, pause, drop},
		},
		"cluster": {
			open: func(t *testing.T) (*Store, []*redisserver.Server) {
				nodes := redisserver.StartCluster(t, 3, "--appendonly", "yes", "--appendfsync", "always")
				return openCluster(t, nodes, Options{Timeout: 500 * time.Millisecond, BreakAfter: 300 * time.Millisecond}), nodes
			},
			faults: []fault{drop, crash, pause, forget},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, servers := c.open(t)
			all := sids(6)
			turns := make([]atomic.Int64, len(all))
			halt := make(chan struct{})
			var work sync.WaitGroup
			for i, sid := range all {
				work.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-halt:
							return
						default:
						}
						turn(t, st, sid, n)
						turns[i].Add(1)
					}
				})
			}
			goesOn := func() {
				for i := range all {
					from := turns[i].Load()
					eventually(t, all[i]+" goes on", func() bool { return turns[i].Load() >= from+3 })
				}
			}
			for range 2 {
				for _, fault := range c.faults {
					goesOn()
					fault(t, st, servers)
				}
			}
			goesOn()
			close(halt)
			work.Wait()
			answers(t, st)
			for i, sid := range all {
				var want []string
				for n := range int(turns[i].Load()) {
					want = append(want, fmt.Sprintf("text of q%04d", n), fmt.Sprintf("answer to q%04d", n))
				}
				if got := wholeTranscript(t, st, sid); !slices.Equal(got, want) {
					t.Errorf("%s: %d rows of %d: %q", sid, len(got), len(want), got)
				}
			}
		})
	}
}

// wholeTranscript reads all pages.
func wholeTranscript(t *testing.T, st *Store, sid string) []string {
	t.Helper()
	h := untilKnown(t, func() ([]store.Session, error) { return st.Head(t.Context(), sid) })[0]
	var texts []string
	for before := int64(0); ; {
		code, rows, more, err := st.Rows(t.Context(), sid, h.Generation, before, 100, 1<<20)
		if err != nil || code != store.OK {
			t.Fatal(code, err)
		}
		page := make([]string, len(rows))
		for i, r := range rows {
			page[i] = string(r.Data)
		}
		texts = append(page, texts...)
		if !more {
			return texts
		}
		before = rows[0].ID
	}
}

//go:build unix

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// TestReconfigure: a new password takes the place of an old one while calls and
// subscriptions are under way; no call fails, no hint's listener is forgotten, and
// the old connections end.
func TestReconfigure(t *testing.T) {
	server := redisserver.Start(t)
	user := func(rules ...any) {
		t.Helper()
		if got := server.Do(append([]any{"ACL", "SETUSER", "edge"}, rules...)...); got != "OK" {
			t.Fatal(got)
		}
	}
	user("on", ">old", "~*", "&*", "+@all")
	o := Options{Addrs: []string{server.Addr}, Username: "edge", Password: "old", Node: "n1", Timeout: 10 * time.Second}
	st := open(t, o)
	const sessions = 20
	var established, hints atomic.Int64
	for i := range sessions {
		submitted(t, st, offer(fmt.Sprint("s", i), "q"), store.Started)
	}
	sub, err := st.Subscribe(t.Context(), "s0", func(h store.Hint) {
		if h.Established {
			established.Add(1)
		} else {
			hints.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range sessions {
		work.Go(func() {
			for seq := int64(1); ; seq++ {
				select {
				case <-stop:
					return
				default:
				}
				if res, err := st.Append(context.Background(), deltas(fmt.Sprint("s", i), "run-q", seq, 1)); err != nil || res.Code != store.OK {
					t.Errorf("Append: %s, %v", res.Code, err)
					return
				}
			}
		})
	}
	eventually(t, "hints", func() bool { return hints.Load() > 0 })
	user(">new")
	o.Password = "new"
	for range 3 {
		if err := st.Reconfigure(o); err != nil {
			t.Fatal(err)
		}
	}
	user("<old")
	eventually(t, "the subscription is established anew", func() bool { return established.Load() > 1 })
	before := hints.Load()
	eventually(t, "hints over the new connection", func() bool { return hints.Load() > before })
	close(stop)
	work.Wait()
	eventually(t, "the old connections end", func() bool {
		return strings.Count(server.Do("CLIENT", "LIST"), "user=edge") <= defaultPool+1
	})
	if st.Generation() != 1 {
		t.Fatal("a new client counts as a new process")
	}

	for name, change := range map[string]func(*Options){
		"address":    func(o *Options) { o.Addrs = []string{"127.0.0.1:1"} },
		"prefix":     func(o *Options) { o.Prefix = "other:" },
		"database":   func(o *Options) { o.DB = 1 },
		"node":       func(o *Options) { o.Node = "n2" },
		"durability": func(o *Options) { o.Durability = "paper" },
	} {
		other := o
		change(&other)
		if err := st.Reconfigure(other); err == nil {
			t.Errorf("%s was changed", name)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := st.Reconfigure(o); !errors.Is(err, store.ErrUnavailable) {
		t.Fatal(err)
	}
}

// TestConfigure: new limits hold for what comes.
func TestConfigure(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	submitted(t, st, offer("s", "q0"), store.Started)
	submitted(t, st, offer("s", "q1"), store.Queued)
	l := store.DefaultLimits()
	l.QueueItems = 1
	st.Configure(l, time.Hour)
	submitted(t, st, offer("s", "q2"), store.Full)
	st.Configure(store.DefaultLimits(), time.Hour)
	submitted(t, st, offer("s", "q2"), store.Queued)
	code, err := st.Delete(t.Context(), "s", alice, "op", 0)
	if err != nil || code != store.Busy {
		t.Fatal(code, err)
	}
	submitted(t, st, offer("idle", "q"), store.Started)
	a := store.FinishArgs{Batch: deltas("idle", "run-q", 1, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
	if res, err := st.Finish(t.Context(), a); err != nil || res.Code != store.Idle {
		t.Fatal(res.Code, err)
	}
	if ttl := st.current.client.PTTL(t.Context(), st.sessionKey("h", "idle")).Val(); ttl <= 0 || ttl > time.Hour {
		t.Fatalf("retention %v", ttl)
	}
}

// TestDurability: acceptance and end of a run wait for a replica; where none
// answers the write stands, is counted, and is logged once.
func TestDurability(t *testing.T) {
	turn := func(t *testing.T, st *Store, sid string) {
		t.Helper()
		submitted(t, st, offer(sid, "q"), store.Started)
		appended(t, st, deltas(sid, "run-q", 1, 1), store.OK)
		a := store.FinishArgs{Batch: deltas(sid, "run-q", 2, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
		if res, err := st.Finish(t.Context(), a); err != nil || res.Code != store.Idle {
			t.Fatal(res.Code, err)
		}
		submitted(t, st, offer(sid, "q"), store.Repeat)
	}
	t.Run("with a replica", func(t *testing.T) {
		primary := redisserver.Start(t)
		host, port, _ := net.SplitHostPort(primary.Addr)
		replica := redisserver.Start(t, "--replicaof", host+" "+port)
		eventually(t, "the replica follows", func() bool {
			return primary.Do("WAIT", 1, 100) == "1" && strings.Contains(replica.Do("INFO", "replication"), "link_status:up")
		})
		w := &witness{}
		st := open(t, Options{Addrs: []string{primary.Addr}, Durability: DurabilityReplica, Observer: w})
		primary.Do("SCRIPT", "FLUSH")
		for i := range 10 {
			sid := fmt.Sprint("s", i)
			turn(t, st, sid)
		}
		if c, m := w.confirmed.Load(), w.missed.Load(); c+m != 20 || c < 10 {
			t.Fatalf("%d confirmed, %d not", c, m)
		}
		if n := replica.Do("EXISTS", st.sessionKey("h", "s9")); n != "1" {
			t.Fatal("the replica has nothing")
		}
	})
	t.Run("without", func(t *testing.T) {
		server := redisserver.Start(t)
		w := &witness{}
		core, logs := observer.New(zap.WarnLevel)
		st, err := Open(Options{Addrs: []string{server.Addr}, Node: "n1", Durability: DurabilityReplica, Observer: w, Logger: zap.New(core), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		turn(t, st, "s")
		turn(t, st, "s2")
		if c, m := w.confirmed.Load(), w.missed.Load(); c != 0 || m != 4 {
			t.Fatalf("%d confirmed, %d not", c, m)
		}
		if n := logs.FilterMessageSnippet("no replica").Len(); n != 1 {
			t.Fatalf("%d log lines", n)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		w := &witness{}
		st := openCluster(t, redisserver.StartCluster(t, 3), Options{Durability: DurabilityReplica, Observer: w})
		for i := range 6 {
			turn(t, st, fmt.Sprint("s", i))
		}
		if m := w.missed.Load(); m != 12 {
			t.Fatalf("%d not confirmed", m)
		}
	})
}

// TestObserver: calls, hints with their age, and generations are told.
func TestObserver(t *testing.T) {
	server := redisserver.Start(t)
	w := &witness{}
	st := open(t, Options{Addrs: []string{server.Addr}, Observer: w, Timeout: time.Second, BreakAfter: 300 * time.Millisecond})
	submitted(t, st, offer("s", "q"), store.Started)
	sub, err := st.Subscribe(t.Context(), "s", func(store.Hint) {})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	eventually(t, "a hint", func() bool { return w.hints.Load() > 0 })
	if lag := time.Duration(w.lag.Load()); lag < 0 || lag > 10*time.Second {
		t.Errorf("lag %v", lag)
	}
	server.Kill()
	if _, err := st.Append(t.Context(), deltas("s", "run-q", 2, 1)); err == nil {
		t.Fatal("a dead server answers")
	}
	server.Restart()
	answers(t, st)
	if g := w.generation.Load(); g != 2 {
		t.Errorf("generation %d", g)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.classes["submit "] != 1 || w.classes["deltas "] != 1 || w.classes["deltas unknown"]+w.classes["deltas unavailable"] != 1 {
		t.Errorf("%v", w.classes)
	}
}

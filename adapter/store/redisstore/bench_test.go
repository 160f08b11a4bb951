//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

var alice = store.Guard{Owner: "alice", Profile: "default"}

func offer(sid, qid string) store.SubmitArgs {
	return store.SubmitArgs{
		SID: sid, Guard: alice, Create: store.Attrs{Title: "Title", Preview: "Preview"},
		Item: store.Item{
			QID: qid, Run: "run-" + qid, Digest: qid, Executor: "gateway", CID: "cid",
			Row: store.NewRow{Role: store.RoleUser, Data: []byte("text of " + qid)}, Options: []byte("opts"),
		},
		Start: &store.Start{Token: "tok", Node: "n1", TTL: store.LeaseTTL},
	}
}

func deltas(sid, run string, seq int64, n int) store.Batch {
	b := store.Batch{SID: sid, Token: "tok", Run: run, Seq: seq, Stamp: fmt.Sprintf("st%04d", seq), TTL: store.LeaseTTL}
	for range n {
		b.Events = append(b.Events, store.NewEntry{
			Kind: store.KindEvent, Name: "message.delta", Payload: []byte(`{"session_id":"s-000001","delta":"some words of text "}`),
		})
	}
	return b
}

// processed is the number of commands the server has executed, script calls
// included, and the microseconds it spent in scripts.
func processed(s *redisserver.Server) (commands, micros float64) {
	for line := range strings.Lines(s.Do("INFO", "all")) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "total_commands_processed:"); ok {
			commands, _ = strconv.ParseFloat(v, 64)
		}
		if v, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			for field := range strings.SplitSeq(v, ",") {
				if u, ok := strings.CutPrefix(field, "usec="); ok {
					micros, _ = strconv.ParseFloat(u, 64)
				}
			}
		}
	}
	return commands, micros
}

// BenchmarkAppend writes deltas of many sessions at once, with a checkpoint after
// 256 entries as the engine does.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("events=%d", size), func(b *testing.B) {
			server := redisserver.Start(b)
			st := open(b, Options{Addrs: []string{server.Addr}, Timeout: 5 * time.Second})
			var worker atomic.Int64
			c0, u0 := processed(server)
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				id := worker.Add(1)
				sid := fmt.Sprintf("s-%06d", id)
				if _, err := st.Submit(context.Background(), offer(sid, "q")); err != nil {
					b.Error(err)
					return
				}
				for seq := int64(1); pb.Next(); seq++ {
					batch := deltas(sid, "run-q", seq, size)
					if seq%int64(max(1, 256/size)) == 0 {
						batch.Checkpoint = []byte(strings.Repeat("folded text ", 100))
					}
					res, err := st.Append(context.Background(), batch)
					if err != nil || res.Code != store.OK {
						b.Errorf("%s %v", res.Code, err)
						return
					}
				}
			})
			b.StopTimer()
			c1, u1 := processed(server)
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric((c1-c0)/float64(b.N), "commands/op")
			b.ReportMetric((u1-u0)/float64(b.N), "server-us/op")
		})
	}
}

// BenchmarkTurn is a message from acceptance to its end, with the read of a
// watching node.
func BenchmarkTurn(b *testing.B) {
	server := redisserver.Start(b)
	st := open(b, Options{Addrs: []string{server.Addr}, Timeout: 5 * time.Second})
	ctx := context.Background()
	c0, u0 := processed(server)
	for i := range b.N {
		sid, qid := fmt.Sprintf("s-%d", i%100), fmt.Sprintf("q%d", i)
		if res, err := st.Submit(ctx, offer(sid, qid)); err != nil || res.Code != store.Started {
			b.Fatal(res.Code, err)
		}
		res, err := st.Append(ctx, deltas(sid, "run-"+qid, 1, 8))
		if err != nil || res.Code != store.OK {
			b.Fatal(res.Code, err)
		}
		a := store.FinishArgs{Batch: deltas(sid, "run-"+qid, 2, 1), Outcome: store.StateCompleted, End: store.NewEntry{Name: "run.completed"}}
		if res, err := st.Finish(ctx, a); err != nil || res.Code != store.Idle {
			b.Fatal(res.Code, err)
		}
	}
	b.StopTimer()
	c1, u1 := processed(server)
	b.ReportMetric((c1-c0)/float64(b.N), "commands/op")
	b.ReportMetric((u1-u0)/float64(b.N), "server-us/op")
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSessions appends single events of many sessions at once: as pipelines,
// and each call by itself.
func BenchmarkSessions(b *testing.B) {
	for _, sessions := range []int{1, 10, 200} {
		for _, unpiped := range []bool{true, false} {
			b.Run(fmt.Sprintf("sessions=%d/piped=%v", sessions, !unpiped), func(b *testing.B) {
				server := redisserver.Start(b)
				st := open(b, Options{Addrs: []string{server.Addr}, Timeout: 10 * time.Second, unpiped: unpiped})
				var left atomic.Int64
				var work sync.WaitGroup
				for i := range sessions {
					if _, err := st.Submit(b.Context(), offer(fmt.Sprintf("s-%06d", i), "q")); err != nil {
						b.Fatal(err)
					}
				}
				left.Store(int64(b.N))
				_, u0 := processed(server)
				b.ResetTimer()
				used := cpu()
				for i := range sessions {
					work.Go(func() {
						sid := fmt.Sprintf("s-%06d", i)
						for seq := int64(1); left.Add(-1) >= 0; seq++ {
							res, err := st.Append(context.Background(), deltas(sid, "run-q", seq, 1))
							if err != nil || res.Code != store.OK {
								b.Errorf("%s %v", res.Code, err)
								return
							}
						}
					})
				}
				work.Wait()
				b.StopTimer()
				_, u1 := processed(server)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "client-us/op")
				b.ReportMetric((u1-u0)/float64(b.N), "server-us/op")
			})
		}
	}
}

// BenchmarkWatchers reads single new entries of many sessions at once, as nodes do
// that watch them.
func BenchmarkWatchers(b *testing.B) {
	for _, unpiped := range []bool{true, false} {
		b.Run(fmt.Sprintf("piped=%v", !unpiped), func(b *testing.B) {
			const sessions = 200
			server := redisserver.Start(b)
			st := open(b, Options{Addrs: []string{server.Addr}, Timeout: 10 * time.Second, unpiped: unpiped})
			starts := make([]store.SubmitResult, sessions)
			for i := range starts {
				sid := fmt.Sprintf("s-%06d", i)
				res, err := st.Submit(b.Context(), offer(sid, "q"))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := st.Append(b.Context(), deltas(sid, "run-q", 1, 1)); err != nil {
					b.Fatal(err)
				}
				starts[i] = res
			}
			var left atomic.Int64
			var work sync.WaitGroup
			left.Store(int64(b.N))
			b.ResetTimer()
			used := cpu()
			for i := range starts {
				work.Go(func() {
					for left.Add(-1) >= 0 {
						read, err := st.ReadLog(context.Background(), fmt.Sprintf("s-%06d", i), starts[i].Incarnation, starts[i].Last, 0)
						if err != nil || len(read.Entries) != 1 {
							b.Errorf("%d entries, %v", len(read.Entries), err)
							return
						}
					}
				})
			}
			work.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
			b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "client-us/op")
		})
	}
}

package embedded

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func benchStore(b *testing.B) *Store {
	st, err := Open(Options{Path: filepath.Join(b.TempDir(), "store.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return st
}

func benchStart(b *testing.B, st *Store, sid, qid string) {
	res, err := st.Submit(context.Background(), store.SubmitArgs{
		SID: sid, Guard: alice, Item: item(qid), Start: &store.Start{Token: "tok", Node: "n", TTL: time.Minute},
	})
	if err != nil || res.Code != store.Started {
		b.Fatal(res.Code, err)
	}
}

// BenchmarkAppend writes one delta event, with a checkpoint as often as the
// engine makes one.
func BenchmarkAppend(b *testing.B) {
	st := benchStore(b)
	benchStart(b, st, "s", "q")
	ctx := context.Background()
	batch := batch("s", "run-q", 1)
	fold := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		batch.Checkpoint = nil
		if batch.Seq%256 == 0 {
			batch.Checkpoint = fold
		}
		if res, err := st.Append(ctx, batch); err != nil || res.Code != store.OK {
			b.Fatal(res.Code, err)
		}
		batch.Seq++
	}
}

// BenchmarkRun accepts and ends runs of many sessions at once: two commits each.
func BenchmarkRun(b *testing.B) {
	st := benchStore(b)
	b.SetParallelism(64)
	var n int
	next := make(chan int)
	stop := make(chan struct{})
	go func() {
		for ; ; n++ {
			select {
			case next <- n:
			case <-stop:
				return
			}
		}
	}()
	defer close(stop)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			sid := fmt.Sprint("s", <-next)
			benchStart(b, st, sid, "q")
			if res, err := st.Finish(context.Background(), endOf(batch(sid, "run-q", 1))); err != nil || res.Code != store.Idle {
				b.Error(res.Code, err)
			}
		}
	})
}

// BenchmarkList reads a page out of 10,000 sessions, and searches through them.
func BenchmarkList(b *testing.B) {
	st := benchStore(b)
	var done = make(chan struct{}, 64)
	for i := range 64 {
		go func() {
			for k := i; k < 10_000; k += 64 {
				res, err := st.Note(context.Background(), store.NoteArgs{
					SID: fmt.Sprint("s", k), Guard: alice, Create: &store.Attrs{Title: fmt.Sprint("Title ", k)}, OpID: "o",
				})
				if err != nil || res != store.OK {
					b.Error(res, err)
				}
			}
			done <- struct{}{}
		}()
	}
	for range 64 {
		<-done
	}
	for name, q := range map[string]store.ListQuery{
		"page": {Owner: "alice", Limit: 50}, "search": {Owner: "alice", Text: "title 42", Limit: 50},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if page, err := st.List(context.Background(), q); err != nil || len(page.Sessions) != 50 {
					b.Fatal(len(page.Sessions), err)
				}
			}
		})
	}
}

package memory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func TestConnectionRecordsAreBounded(t *testing.T) {
	now := int64(sweepPause)
	st := New(Options{Clock: func() int64 { return now }})
	st.conns.limit = 2000
	ctx := context.Background()
	save := func(i int) error {
		_, err := st.SaveConn(ctx, store.ConnRecord{PID: fmt.Sprint(i), Holder: "n/a"}, time.Minute)
		return err
	}
	for i := range 2000 {
		if err := save(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(2000); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("one too many: %v, want ErrUnavailable", err)
	}
	if err := save(7); err != nil {
		t.Fatalf("a record that is there: %v", err)
	}
	now += time.Hour.Milliseconds()
	if err := save(2000); err != nil {
		t.Fatalf("after the others have run out: %v", err)
	}
	if n := len(st.conns.records); n != 1 {
		t.Fatalf("%d records, though all but one have run out", n)
	}
}

// TestUnknownSessionsLeaveNoTrace: what is asked of sessions that do not exist
// does not fill memory.
func TestUnknownSessionsLeaveNoTrace(t *testing.T) {
	st := New(Options{})
	ctx := context.Background()
	for i := range 100 {
		sid := fmt.Sprint("s", i)
		_, err1 := st.Snapshot(ctx, sid)
		_, err2 := st.TakeOver(ctx, store.TakeOverArgs{SID: sid, Token: "t"})
		_, err3 := st.CancelQueued(ctx, sid, store.Guard{}, "q")
		sub, err4 := st.Subscribe(ctx, sid, func(store.Hint) {})
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		sub.Close()
	}
	if n := st.Loaded(); n != 0 {
		t.Fatalf("%d sessions in memory", n)
	}
}

// TestLogSharesNothingThatChanges: entries handed out stay as they are while the
// log grows and is trimmed.
func TestLogSharesNothingThatChanges(t *testing.T) {
	limits := store.DefaultLimits()
	limits.LogKeep = 8
	st := New(Options{Limits: limits})
	ctx := context.Background()
	res, err := st.Submit(ctx, store.SubmitArgs{SID: "s", Item: store.Item{QID: "q", Run: "r"}, Start: &store.Start{Token: "t", TTL: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	b := store.Batch{SID: "s", Token: "t", Run: "r", TTL: time.Minute, Events: make([]store.NewEntry, 3)}
	at, seen := res.Last, [][]store.Entry{}
	for seq := range int64(100) {
		b.Seq, b.Stamp = seq+1, fmt.Sprintf("s%05d", seq)
		b.Checkpoint = nil
		if seq%5 == 0 {
			b.Checkpoint = []byte("c")
		}
		if _, err := st.Append(ctx, b); err != nil {
			t.Fatal(err)
		}
		r, err := st.ReadLog(ctx, "s", res.Incarnation, at, 0)
		if err != nil || r.Code != store.OK {
			t.Fatal(r.Code, err)
		}
		seen = append(seen, r.Entries)
		at = r.Entries[len(r.Entries)-1].Position()
	}
	next := res.Last.Offset
	for _, entries := range seen {
		for i := range entries {
			if next++; entries[i].Offset != next {
				t.Fatalf("entry %d has become %d", next, entries[i].Offset)
			}
		}
	}
	if n := len(st.sessions["s"].log); n > 8+3*5 {
		t.Fatalf("%d entries kept", n)
	}
}

// BenchmarkAppend writes one delta event.
func BenchmarkAppend(b *testing.B) {
	st := New(Options{})
	ctx := context.Background()
	_, err := st.Submit(ctx, store.SubmitArgs{SID: "s", Item: store.Item{QID: "q", Run: "r"}, Start: &store.Start{Token: "t", TTL: time.Minute}})
	if err != nil {
		b.Fatal(err)
	}
	batch := store.Batch{
		SID: "s", Token: "t", Run: "r", TTL: time.Minute, Stamp: "abcdef",
		Events: []store.NewEntry{{Kind: store.KindEvent, Name: "message.delta", Payload: []byte(`{"delta":"x"}`)}},
	}
	b.ReportAllocs()
	for b.Loop() {
		batch.Seq++
		batch.Checkpoint = nil
		if batch.Seq%256 == 0 {
			batch.Checkpoint = []byte("fold")
		}
		if res, err := st.Append(ctx, batch); err != nil || res.Code != store.OK {
			b.Fatal(res.Code, err)
		}
	}
}

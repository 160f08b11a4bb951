package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func TestOneProcessAFile(t *testing.T) {
	o := options(t)
	open(t, o)
	o.LockWait = 20 * time.Millisecond
	if st, err := Open(o); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("second opening: %v, %v", st, err)
	}
}

func TestFileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // modes say nothing there
	}
	o := options(t)
	open(t, o)
	for path, want := range map[string]os.FileMode{o.Path: 0o600, filepath.Dir(o.Path): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s: %v, %v; want %v", filepath.Base(path), info.Mode(), err, want)
		}
	}
}

func TestNewerLayoutIsRefused(t *testing.T) {
	o := options(t)
	st := open(t, o)
	submit(t, st, "s", "q1", store.Started)
	closed(t, st)
	edit := func(do func(*bolt.Tx) error) {
		db, err := bolt.Open(o.Path, 0o600, nil)
		if err == nil {
			err = errors.Join(db.Update(do), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	edit(func(tx *bolt.Tx) error {
		b, err := encode(map[string]any{"v": 99, "ep": "x"})
		if err != nil {
			return err
		}
		return tx.Bucket(bucketRoot).Put([]byte("s"), b)
	})
	st = open(t, o)
	if _, err := st.Head(context.Background(), "s"); !errors.Is(err, store.ErrTooNew) {
		t.Fatalf("Head of a newer session: %v", err)
	}
	if _, err := st.Submit(context.Background(), store.SubmitArgs{SID: "s", Item: item("q")}); !errors.Is(err, store.ErrTooNew) {
		t.Fatalf("Submit to a newer session: %v", err)
	}
	closed(t, st)
	edit(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(keyLayout, []byte{0, 0, 0, 0, 0, 0, 0, 99}) })
	if st, err := Open(o); !errors.Is(err, store.ErrTooNew) {
		t.Fatalf("opening a newer file: %v, %v", st, err)
	}
}

func TestNotAStoreFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a store file ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if st, err := Open(Options{Path: path}); err == nil {
		t.Fatalf("opened a file of another kind: %v", st)
	}
}

func TestIdleSessionsLeaveMemoryAndComeBack(t *testing.T) {
	o := options(t)
	clock, pass := movable()
	o.clock = clock
	st := open(t, o)
	ctx := context.Background()
	submit(t, st, "busy", "q1", store.Started)
	ep := submit(t, st, "s", "q1", store.Started).Incarnation
	last := finish(t, st, endOf(batch("s", "run-q1", 1)), store.Idle).Last
	st.journal.sweep(ctx)
	if n := st.Loaded(); n != 2 {
		t.Fatalf("%d sessions in memory, want 2: the log can still be read", n)
	}
	pass(store.IdleLogTTL + time.Minute)
	st.journal.sweep(ctx)
	if n := st.Loaded(); n != 1 {
		t.Fatalf("%d sessions in memory, want the busy one", n)
	}
	if h := head(t, st, "s"); h.Head != last || h.Title != "Title" {
		t.Fatalf("root of a session not in memory: %+v", h)
	}
	if n := st.Loaded(); n != 1 {
		t.Fatal("Head loads a session")
	}
	res, err := st.ReadLog(ctx, "s", ep, last, 0)
	if err != nil || res.Code != store.OK {
		t.Fatalf("a tail that slept: %s, %v; want no gap", res.Code, err)
	}
	if next := submit(t, st, "s", "q2", store.Started); next.Before != last {
		t.Fatalf("the log goes on at %v, want %v", next.Before, last)
	}
}

func TestRetention(t *testing.T) {
	o := options(t)
	clock, pass := movable()
	o.clock, o.Retention = clock, 24*time.Hour
	st := open(t, o)
	ctx := context.Background()
	for _, sid := range []string{"old", "deleted"} {
		submit(t, st, sid, "q1", store.Started)
		finish(t, st, endOf(batch(sid, "run-q1", 1)), store.Idle)
	}
	submit(t, st, "busy", "q1", store.Started)
	if c, err := st.Delete(ctx, "deleted", alice, "op", 0); c != store.Done || err != nil {
		t.Fatal(c, err)
	}
	st.journal.sweep(ctx)
	submit(t, st, "deleted", "q1", store.Repeat)
	pass(25 * time.Hour)
	submit(t, st, "young", "q1", store.Started)
	finish(t, st, endOf(batch("young", "run-q1", 1)), store.Idle)
	st.journal.sweep(ctx)
	page, err := st.List(ctx, store.ListQuery{})
	if err != nil || len(page.Sessions) != 2 {
		t.Fatalf("left: %+v, %v; want the busy and the young", page.Sessions, err)
	}
	for _, name := range buckets {
		err := st.journal.view(func(tx *bolt.Tx) error {
			return tx.Bucket(name).ForEach(func(k, _ []byte) error {
				if strings.Contains(string(k), "old") || strings.Contains(string(k), "deleted") {
					t.Errorf("bucket %s still has %q", name, k)
				}
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosedStore(t *testing.T) {
	st := open(t, options(t))
	submit(t, st, "s", "q1", store.Started)
	closed(t, st)
	closed(t, st)
	ctx := context.Background()
	_, errSubmit := st.Submit(ctx, store.SubmitArgs{SID: "s", Guard: alice, Item: item("q2")})
	_, errHead := st.Head(ctx, "s")
	_, errList := st.List(ctx, store.ListQuery{})
	_, _, _, errRows := st.Rows(ctx, "s", 1, 0, 1, 1)
	for i, err := range []error{errSubmit, errHead, errList, errRows, st.Arm(ctx, "s", 0)} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("call %d on a closed store: %v", i, err)
		}
	}
}

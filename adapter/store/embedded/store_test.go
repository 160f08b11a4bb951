package embedded

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o Options) *Store {
	t.Helper()
	st, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// movable is a clock that a test can put forward.
func movable() (clock func() int64, pass func(time.Duration)) {
	var ahead atomic.Int64
	return func() int64 { return time.Now().UnixMilli() + ahead.Load() },
		func(d time.Duration) { ahead.Add(d.Milliseconds()) }
}

// TestConformance: an owner is orphaned by a restart on the same file. Background
// transactions come in quick succession, to meet every operation.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		clock, pass := movable()
		o := Options{Path: filepath.Join(t.TempDir(), "store.db"), Limits: storetest.Limits(), clock: clock, flush: time.Millisecond}
		st := open(t, o)
		return storetest.Harness{
			Nodes: []store.Store{st}, Limits: o.Limits, Pass: pass,
			Orphan: func(string) {
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				st = open(t, o)
			},
			Reader: func() store.Store { return st },
		}
	})
}

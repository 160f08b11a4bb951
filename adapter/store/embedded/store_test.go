package embedded

import (
	"path/filepath"
	"testing"

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

// TestConformance: an owner is orphaned by a restart on the same file.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		o := Options{Path: filepath.Join(t.TempDir(), "store.db"), Limits: storetest.Limits()}
		st := open(t, o)
		return storetest.Harness{
			Nodes: []store.Store{st}, Limits: o.Limits,
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

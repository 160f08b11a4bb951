package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
	"github.com/hermes-edge/hermes-edge/adapter/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance: several nodes use one instance, on a clock of the test.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		var clock atomic.Int64
		clock.Store(1_700_000_000_000)
		st := memory.New(memory.Options{Clock: clock.Load, Limits: storetest.Limits(), FallsBack: true})
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		return storetest.Harness{
			Nodes: []store.Store{st, st, st}, Limits: storetest.Limits(), Leases: true, NotAfter: true,
			Pass:          func(d time.Duration) { clock.Add(d.Milliseconds()) },
			NewGeneration: func() { st.FallBack(st.Mark()) },
			Mark:          func(*testing.T) any { return st.Mark() },
			FallBack:      func(_ *testing.T, mark any) { st.FallBack(mark.(*memory.Mark)) },
		}
	})
}

package simulation

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/adapter/store/storetest"
)

// seedsEnv sets how many seeds TestSimulation runs; firstEnv the first of them,
// to repeat a failure.
const (
	seedsEnv = "HERMES_EDGE_SIM_SEEDS"
	firstEnv = "HERMES_EDGE_SIM_FIRST"
)

// mutationSeeds are tried before a missing rule counts as unnoticed.
const mutationSeeds = 3000

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func number(t *testing.T, env string, otherwise uint64) uint64 {
	s := os.Getenv(env)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", env, err)
	}
	return n
}

// simulate runs one seed and returns what was broken.
func simulate(seed uint64, without rule) []string {
	w := newWorld(seed, without)
	w.run()
	if len(w.violations) == 0 {
		w.verify()
	}
	return w.violations
}

// search runs seeds on all cores until one of them breaks a promise.
func search(first, n uint64, without rule) (seed uint64, broken []string) {
	var next atomic.Uint64
	var mu sync.Mutex
	var stop atomic.Bool
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !stop.Load() {
				i := next.Add(1) - 1
				if i >= n {
					return
				}
				if v := simulate(first+i, without); len(v) > 0 {
					mu.Lock()
					if broken == nil || first+i < seed {
						seed, broken = first+i, v
					}
					mu.Unlock()
					stop.Store(true)
				}
			}
		})
	}
	workers.Wait()
	return seed, broken
}

func TestSimulation(t *testing.T) {
	first := number(t, firstEnv, 1)
	seed, broken := search(first, number(t, seedsEnv, defaultSeeds), nothing)
	if broken != nil {
		t.Fatalf("seed %d (%s=%d %s=1 repeats it):\n%v", seed, firstEnv, seed, seedsEnv, broken)
	}
}

// TestSimulationIsDeterministic: a seed that fails can be repeated.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newWorld(seed, nothing), newWorld(seed, nothing)
		a.run()
		b.run()
		if a.now != b.now || a.seq != b.seq || a.names != b.names {
			t.Fatalf("seed %d ends at %d after %d steps, and at %d after %d", seed, a.now, a.seq, b.now, b.seq)
		}
	}
}

// TestReach: the schedules meet what they are meant to meet.
func TestReach(t *testing.T) {
	met := new(storetest.Met)
	for seed := uint64(400); seed < 550; seed++ {
		w := newWorld(seed, nothing)
		w.store = &storetest.Census{Store: w.mem, Met: met}
		w.run()
	}
	missing := met.Missing(
		"Submit started", "Submit queued", "Submit repeat", "Submit withdrawn", "Submit expired",
		"Withdraw done", "Withdraw kept", "Withdraw active", "CancelQueued cancelled", "CancelQueued not_queued",
		"Append ok", "Append dup", "Append fenced", "Renew ok", "Renew fenced", "Release ok",
		"Finish idle", "Finish next", "Finish waiting", "Finish aborting", "Finish fenced",
		"RequestAbort ok", "RequestAbort already", "RequestAbort ended",
		"Renew lost", "Renew back", "Renew ended", "Append lost", "Append back", "Append ended",
		"Reinstate ok", "Reinstate ended", "Reinstate busy", "Reinstate fenced", "Bury ok",
		"TakeOver idle", "TakeOver held", "TakeOver run", "TakeOver next", "TakeOver rerun",
	)
	if len(missing) > 0 {
		t.Errorf("no schedule meets %q", missing)
	}
}

// TestMutations: without any one of these rules a promise is broken. The search
// begins near a seed that is known to notice; any other would do, later.
func TestMutations(t *testing.T) {
	for without, first := range map[rule]uint64{
		tokenCheck: 10, writeAhead: 10, ack: 120, notAfter: 225, park: 1980, settle: 80, reinstate: 1,
	} {
		t.Run(string(without), func(t *testing.T) {
			seed, broken := search(first, mutationSeeds, without)
			if broken == nil {
				t.Fatalf("%d seeds do not notice that the %s is missing", mutationSeeds, without)
			}
			t.Logf("seed %d: %s", seed, broken[0])
		})
	}
}

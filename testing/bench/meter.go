package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// measurement is what one run against one server has yielded, by metric.
type measurement map[string]float64

// Metrics, in the unit of the table.
const (
	cpuPerUnit  = "cpu"      // µs of the server per message, delta or heartbeat
	perSecond   = "rate"     // messages, deltas or connections a second
	latencyP50  = "p50"      // ms
	latencyP99  = "p99"      // ms
	residentPer = "rss"      // kB per connection or stream above the idle process
	peakPer     = "peak"     // kB
	livePer     = "live"     // kB of heap and stacks in use, Go servers only
	baseMemory  = "base"     // MB of the idle process
	startTime   = "start"    // ms
	connectRate = "connects" // connections a second
	perEvent    = "merged"   // deltas in one event
	strangers   = "others"   // percent of one core that programs beside ours used
	load        = "load"     // percent of one core that generator and gateway used
)

// target is a server under measurement and what stands behind it.
type target struct {
	*process
	gateway *process // nil if the scenario needs none
	profile string   // path of the server's profiles without their endings, empty for none
}

func (t *target) stop() {
	t.process.stop()
	if t.gateway != nil {
		t.gateway.stop()
	}
}

// meter takes the times of a window.
type meter struct {
	server usage
	others []usage // generator and gateway
	busy   time.Duration
	start  time.Time
}

func startMeter(t *target) (*meter, error) {
	m := new(meter)
	pids := []int{os.Getpid()}
	if t.gateway != nil {
		pids = append(pids, t.gateway.pid)
	}
	for _, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return nil, err
		}
		m.others = append(m.others, u)
	}
	var err error
	if m.server, err = usageOf(t.pid); err != nil {
		return nil, err
	}
	m.busy, err = busyTime()
	m.start = time.Now()
	return m, err
}

// stop writes the figures of n units of work into the measurement.
func (m *meter) stop(into measurement, n int64) error {
	elapsed := time.Since(m.start)
	server, err := m.server.since()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("nothing arrived in %s", elapsed)
	}
	var others time.Duration
	for _, u := range m.others {
		used, err := u.since()
		if err != nil {
			return err
		}
		others += used
	}
	busy, err := busyTime()
	if err != nil {
		return err
	}
	into[strangers] = 100 * max(0, busy-m.busy-server-others).Seconds() / elapsed.Seconds()
	into[cpuPerUnit] = float64(server.Microseconds()) / float64(n)
	into[perSecond] = float64(n) / elapsed.Seconds()
	into[load] = 100 * others.Seconds() / elapsed.Seconds()
	return nil
}

// window measures for d what the counter counts.
func window(ctx context.Context, t *target, d time.Duration, counter *atomic.Int64, into measurement) error {
	before := counter.Load()
	m, err := startMeter(t)
	if err != nil {
		return err
	}
	profiled := t.startProfile(ctx, d)
	if err := wait(ctx, d); err != nil {
		return err
	}
	return errors.Join(m.stop(into, counter.Load()-before), profiled())
}

// startProfile records a CPU profile for whole seconds, at least one, and a heap
// profile after it, if they are wanted; the result waits for them.
func (t *target) startProfile(ctx context.Context, d time.Duration) (done func() error) {
	if t.profile == "" {
		return func() error { return nil }
	}
	var group errgroup.Group
	group.Go(func() error {
		profile, err := fetch(ctx, fmt.Sprintf("%sprofile?seconds=%d", t.debug, max(1, int(d.Seconds()))))
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		return os.WriteFile(t.profile+".cpu.pprof", profile, 0o644)
	})
	return func() error { return errors.Join(group.Wait(), t.writeHeap(ctx)) }
}

// writeHeap records what is in use and what has been allocated so far.
func (t *target) writeHeap(ctx context.Context) error {
	profile, err := fetch(ctx, t.debug+"heap?gc=1")
	if err != nil {
		return fmt.Errorf("heap profile: %w", err)
	}
	return os.WriteFile(t.profile+".heap.pprof", profile, 0o644)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scavenge is the time that a Go server gets for returning freed pages.
const scavenge = time.Second

// settled is the memory of a server after garbage collections.
func settled(ctx context.Context, t *target) (memory, error) {
	if err := t.settle(ctx); err != nil {
		return memory{}, err
	}
	if err := wait(ctx, scavenge); err != nil {
		return memory{}, err
	}
	return memoryOf(t.pid)
}

// liveBytes is the heap in use and the stacks of a Go server after a garbage
// collection, without what the runtime keeps in reserve; 0 if it does not tell.
func liveBytes(ctx context.Context, t *target) (int64, error) {
	if t.debug == "" {
		return 0, nil
	}
	text, err := fetch(ctx, t.debug+"heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	heap, err := memstat(string(text), "# HeapInuse = ")
	if err != nil {
		return 0, err
	}
	stacks, err := memstat(string(text), "# Stack = ")
	return heap + stacks, err
}

// memstat reads the number behind a label of a heap profile in text form.
func memstat(profile, label string) (int64, error) {
	_, rest, found := strings.Cut(profile, label)
	if !found {
		return 0, fmt.Errorf("the heap profile has no %q", label)
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	return strconv.ParseInt(rest[:end], 10, 64)
}

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

	// Of scenarios with a Redis; CPU is that of Redis, or of the edges and Redis.
	storeCPU      = "store-cpu"      // µs per delta
	sumCPU        = "sum-cpu"        // µs per delta
	storeCommands = "store-commands" // per delta, those inside scripts included
	storeScripts  = "store-scripts"  // calls of scripts per delta
	storeCeiling  = "store-ceiling"  // deltas in a second of CPU of Redis

	// Of clients that come back, and of outages.
	caughtUp      = "caught-up"      // s until the last client has everything
	caughtUpHalf  = "caught-up-half" // s until half of them have
	missedPer     = "missed"         // deltas that each client has missed
	forgotten     = "forgotten"      // clients that the server did not know any more
	snapshots     = "snapshots"      // clients that got a snapshot in place of what they missed
	failures      = "failures"       // clients whose connection broke
	peakTotal     = "peak-total"     // MB of the whole process
	lostDeltas    = "lost"           // deltas that a client never got
	doubledDeltas = "doubled"        // deltas that a client got twice or too late
	firstRefusal  = "first-refusal"  // ms until a new message was refused
	fastRefusal   = "fast-refusal"   // ms that later messages waited for a refusal at most
	slowRefusal   = "slow-refusal"   // ms that any message waited for a refusal at most
	acceptedAfter = "accepted-after" // s until new messages were accepted again
	startedAfter  = "started-after"  // s until a new message ran again
	durableAfter  = "durable-after"  // s until all streams were in the store again
	volatileShare = "volatile"       // percent of events that were shown before the store had them
	longestDelay  = "longest-delay"  // ms
	reconnects    = "reconnects"     // clients that had to connect again
)

// window measures for d what the counter counts.
func window(ctx context.Context, t *target, d time.Duration, counter *atomic.Int64, into measurement) error {
	before := counter.Load()
	m, err := startMeter(ctx, t)
	if err != nil {
		return err
	}
	profiled := t.startProfile(ctx, d)
	if err := wait(ctx, d); err != nil {
		return err
	}
	return errors.Join(m.stop(ctx, into, counter.Load()-before), profiled())
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
	return t.memory()
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

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// target is a server under measurement and what stands around it.
type target struct {
	*process              // nil where only the store is measured
	more     []*process   // further nodes of the same kind
	redis    *redisServer // nil if the scenario needs none
	gateway  *process     // nil if the scenario needs none
	profile  string       // path of the server's profiles without their endings, empty for none
	progress io.Writer    // for what is worth saying beside the figures
}

// nodes are the servers that clients may connect to.
func (t *target) nodes() []*process {
	if t.process == nil {
		return nil
	}
	return append([]*process{t.process}, t.more...)
}

func (t *target) stop() {
	for _, p := range t.nodes() {
		p.stop()
	}
	if t.redis != nil {
		t.redis.stop()
	}
	if t.gateway != nil {
		t.gateway.stop()
	}
}

// lastLines are the end of what the servers printed.
func (t *target) lastLines() string {
	var lines string
	for _, p := range t.nodes() {
		lines += p.output.String()
	}
	if t.redis != nil {
		lines += t.redis.output.String()
	}
	return lines
}

// settle forces garbage collections on all nodes.
func (t *target) settle(ctx context.Context) error {
	for _, p := range t.nodes() {
		if err := p.settle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// memory is that of all nodes together.
func (t *target) memory() (memory, error) {
	var sum memory
	for _, p := range t.nodes() {
		one, err := memoryOf(p.pid)
		if err != nil {
			return memory{}, err
		}
		sum.resident += one.resident
		sum.peak += one.peak
	}
	return sum, nil
}

// meter takes the times of a window.
type meter struct {
	servers []usage
	others  []usage // generator and gateway
	redis   *storeMeter
	busy    time.Duration
	start   time.Time
}

func startMeter(ctx context.Context, t *target) (*meter, error) {
	m := new(meter)
	var err error
	if m.redis, err = startStoreMeter(ctx, t.redis); err != nil {
		return nil, err
	}
	others := []int{os.Getpid()}
	if t.gateway != nil {
		others = append(others, t.gateway.pid)
	}
	if m.others, err = usagesOf(others); err != nil {
		return nil, err
	}
	var servers []int
	for _, p := range t.nodes() {
		servers = append(servers, p.pid)
	}
	if m.servers, err = usagesOf(servers); err != nil {
		return nil, err
	}
	m.busy, err = busyTime()
	m.start = time.Now()
	return m, err
}

// stop writes the figures of n units of work into the measurement.
func (m *meter) stop(ctx context.Context, into measurement, n int64) error {
	elapsed := time.Since(m.start)
	servers, err := sinceAll(m.servers)
	if err != nil {
		return err
	}
	others, err := sinceAll(m.others)
	if err != nil {
		return err
	}
	busy, err := busyTime()
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("nothing arrived in %s", elapsed)
	}
	store, err := m.redis.stop(ctx, into, n)
	if err != nil {
		return err
	}
	into[strangers] = 100 * max(0, busy-m.busy-servers-store-others).Seconds() / elapsed.Seconds()
	into[cpuPerUnit] = perUnit(servers, n)
	into[sumCPU] = perUnit(servers+store, n)
	into[perSecond] = float64(n) / elapsed.Seconds()
	into[load] = 100 * others.Seconds() / elapsed.Seconds()
	return nil
}

// perUnit is a time in microseconds, divided by the units of work.
func perUnit(d time.Duration, n int64) float64 { return float64(d.Microseconds()) / float64(n) }

// storeMeter takes what a Redis does in a window; nil measures nothing.
type storeMeter struct {
	redis  *redisServer
	usage  usage
	counts storeCounts
}

func startStoreMeter(ctx context.Context, r *redisServer) (*storeMeter, error) {
	if r == nil {
		return nil, nil
	}
	counts, err := r.counts(ctx)
	if err != nil {
		return nil, err
	}
	u, err := usageOf(r.pid)
	return &storeMeter{redis: r, usage: u, counts: counts}, err
}

// stop writes the figures of n units of work and returns the CPU time.
func (m *storeMeter) stop(ctx context.Context, into measurement, n int64) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	used, err := m.usage.since()
	if err != nil {
		return 0, err
	}
	counts, err := m.redis.counts(ctx)
	if err != nil {
		return 0, err
	}
	into[storeCPU] = perUnit(used, n)
	into[storeCeiling] = float64(n) / max(used, time.Second/ticksPerSecond).Seconds()
	into[storeCommands] = float64(counts.commands-m.counts.commands) / float64(n)
	into[storeScripts] = float64(counts.scripts-m.counts.scripts) / float64(n)
	return used, nil
}

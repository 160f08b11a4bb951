package edge

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/metrics"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

// problemsInterval is how often the servers of a shared store are asked what an
// operator should change.
const problemsInterval = time.Minute

// latencyShare is the weight of one call in the mean that health shows.
const latencyShare = 1.0 / 32

// refusalPatience is how long a store may refuse everything before the core is not
// ready: a server that loads its data, or knows no such password, does answer.
const refusalPatience = 2 * time.Second

// storeWatch is what a core knows of the store that it shares.
type storeWatch struct {
	began    time.Time
	metrics  *metrics.Metrics
	latency  atomic.Int64 // mean of the last calls, in nanoseconds
	refusing atomic.Int64 // time from began to the first refusal since an answer; 0: it does not refuse
	problems atomic.Pointer[[]string]
}

// refused reports whether the store has refused everything for a while.
func (w *storeWatch) refused() bool {
	since := w.refusing.Load()
	return since != 0 && time.Since(w.began)-time.Duration(since) > refusalPatience
}

var _ redisstore.Observer = (*storeWatch)(nil)

// watchShared begins what is asked of a shared store, and told to it, as long as
// the core lives.
func (c *Core) watchShared(b *backend) {
	if b.shared == nil {
		return
	}
	again := func(interval time.Duration, do func(ctx context.Context)) {
		c.work.run(func() { c.every(interval, do) })
	}
	again(problemsInterval, func(ctx context.Context) { c.findProblems(ctx, b) })
	c.work.run(func() { c.keepAnnounced(b) })
	again(tokenInterval, func(ctx context.Context) { c.refreshToken(ctx, b.shared) })
	c.work.run(func() { c.attendNotices(b) })
}

// every does something now and then again and again until the core is gone.
func (c *Core) every(interval time.Duration, do func(ctx context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(c.life)
		select {
		case <-tick.C:
		case <-c.life.Done():
			return
		}
	}
}

// findProblems asks what is wrong with the servers. A problem that was there
// before is not logged again.
func (c *Core) findProblems(ctx context.Context, b *backend) {
	found, err := b.shared.Problems(ctx)
	if err != nil {
		return // that it is away is said elsewhere
	}
	known := c.watch.list()
	for _, problem := range found {
		if !slices.Contains(known, problem) {
			c.log.Error("redis is not set up as it should be", zap.String("problem", problem))
		}
	}
	c.watch.problems.Store(&found)
}

func (w *storeWatch) list() []string {
	if found := w.problems.Load(); found != nil {
		return *found
	}
	return nil
}

// Call implements redisstore.Observer.
func (w *storeWatch) Call(script string, took time.Duration, class string) {
	w.metrics.RedisCall(script, took, class)
	switch class {
	case redisstore.ClassUnavailable:
		w.refusing.CompareAndSwap(0, max(1, int64(time.Since(w.began))))
		return
	case redisstore.ClassUnknown:
		return
	}
	if w.refusing.Load() != 0 {
		w.refusing.Store(0)
	}
	for {
		mean := w.latency.Load()
		next := mean + int64(float64(int64(took)-mean)*latencyShare)
		if mean == 0 {
			next = int64(took)
		}
		if w.latency.CompareAndSwap(mean, next) {
			return
		}
	}
}

// Pipeline implements redisstore.Observer.
func (w *storeWatch) Pipeline(calls int) { w.metrics.RedisPipeline(calls) }

// Hint implements redisstore.Observer.
func (w *storeWatch) Hint(lag time.Duration) { w.metrics.RedisHint(lag) }

// Breaker implements redisstore.Observer.
func (w *storeWatch) Breaker(_ string, open bool) { w.metrics.RedisBreaker(open) }

// Generation implements redisstore.Observer.
func (w *storeWatch) Generation(uint64) { w.metrics.RedisGeneration() }

// Replicated implements redisstore.Observer.
func (w *storeWatch) Replicated(confirmed bool) { w.metrics.RedisReplicated(confirmed) }

package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// redis counts what the store does that nodes share.
type redis struct {
	callSeconds  *prometheus.HistogramVec
	errors       *prometheus.CounterVec
	pipelines    prometheus.Histogram
	hintLag      prometheus.Histogram
	breakersOpen prometheus.Gauge
	openings     prometheus.Counter
	generations  prometheus.Counter
	replicated   *prometheus.CounterVec
}

// Buckets of a server that is near: seconds, and calls.
var (
	redisBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	pipelineBuckets = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

func newRedis() redis {
	return redis{
		callSeconds:  histogramVec("redis_call_seconds", "Time of calls to Redis, failed ones included, by script.", redisBuckets, "script"),
		errors:       counterVec("redis_errors_total", "Failed calls to Redis by class: unavailable (not executed), unknown (perhaps executed), too_new.", "class"),
		pipelines:    histogram("redis_pipeline_calls", "Calls to Redis that were sent together.", pipelineBuckets),
		hintLag:      histogram("redis_hint_lag_seconds", "Time from the publication of a hint to its receipt.", redisBuckets),
		breakersOpen: gauge("redis_breakers_open", "Redis servers that do not answer."),
		openings:     counter("redis_breaker_openings_total", "Times in which a Redis server stopped answering."),
		generations:  counter("redis_generation_changes_total", "Changes of a Redis server that may have lost acknowledged writes."),
		replicated:   counterVec("redis_replicated_writes_total", "Durable writes by whether a replica confirmed them in time.", "confirmed"),
	}
}

func (r *redis) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		r.callSeconds, r.errors, r.pipelines, r.hintLag, r.breakersOpen, r.openings, r.generations, r.replicated,
	}
}

// RedisCall records a call of a script; class is that of its error, empty if it
// was answered.
func (m *Metrics) RedisCall(script string, d time.Duration, class string) {
	if m == nil {
		return
	}
	m.redis.callSeconds.WithLabelValues(script).Observe(d.Seconds())
	if class != "" {
		m.redis.errors.WithLabelValues(class).Inc()
	}
}

// RedisPipeline records how many calls were sent together.
func (m *Metrics) RedisPipeline(calls int) {
	if m != nil {
		m.redis.pipelines.Observe(float64(calls))
	}
}

// RedisHint records how late a hint came; negative: it is not known.
func (m *Metrics) RedisHint(lag time.Duration) {
	if m != nil && lag >= 0 {
		m.redis.hintLag.Observe(lag.Seconds())
	}
}

// RedisBreaker counts a server that does not answer any more, or does again.
func (m *Metrics) RedisBreaker(open bool) {
	if m == nil {
		return
	}
	if !open {
		m.redis.breakersOpen.Dec()
		return
	}
	m.redis.breakersOpen.Inc()
	m.redis.openings.Inc()
}

// RedisGeneration counts a change that may have lost writes.
func (m *Metrics) RedisGeneration() {
	if m != nil {
		m.redis.generations.Inc()
	}
}

// RedisReplicated counts a durable write.
func (m *Metrics) RedisReplicated(confirmed bool) {
	if m != nil {
		m.redis.replicated.WithLabelValues(strconv.FormatBool(confirmed)).Inc()
	}
}

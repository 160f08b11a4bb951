package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shared counts what happens between nodes that share a store.
type shared struct {
	fenceLosses prometheus.Counter
	takeovers   *prometheus.CounterVec
	logLag      prometheus.Histogram
	volatile    prometheus.Counter
	outboxBytes prometheus.Gauge
	reinstated  prometheus.Counter
	buried      prometheus.Counter
	settles     prometheus.Counter
	slotWaits   prometheus.Gauge
}

func newShared() shared {
	return shared{
		fenceLosses: counter("fence_losses_total", "Runs that were lost to another node while they were carried out."),
		takeovers:   counterVec("takeovers_total", "Sessions without owner that were taken, by kind: rerun, picked_up or queued.", "kind"),
		logLag:      histogram("log_lag_seconds", "Time from the writing of a log entry to its delivery on another node.", httpBuckets),
		volatile:    counter("volatile_batches_total", "Batches of events shown while the store was away, before they were logged."),
		outboxBytes: gauge("outbox_bytes", "Bytes of events that wait for a store that is away."),
		reinstated:  counter("reinstated_runs_total", "Runs brought back into a store that had lost them."),
		buried:      counter("buried_runs_total", "Runs lost by the store that were recorded as failed."),
		settles:     counter("settles_total", "Times in which nothing began because the store may have lost writes."),
		slotWaits:   gauge("gateway_waits", "Runs that wait for a place at their gateway."),
	}
}

func (s *shared) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		s.fenceLosses, s.takeovers, s.logLag, s.volatile, s.outboxBytes, s.reinstated, s.buried, s.settles, s.slotWaits,
	}
}

// FenceLost counts a run that another node owns now.
func (m *Metrics) FenceLost() {
	if m != nil {
		m.shared.fenceLosses.Inc()
	}
}

// TookOver counts a session taken over; kind is rerun, picked_up or queued.
func (m *Metrics) TookOver(kind string) {
	if m != nil {
		m.shared.takeovers.WithLabelValues(kind).Inc()
	}
}

// LogLag records how late an entry of another node's run was delivered here.
func (m *Metrics) LogLag(d time.Duration) {
	if m != nil {
		m.shared.logLag.Observe(d.Seconds())
	}
}

// Volatile counts batches shown before the store had them.
func (m *Metrics) Volatile(batches int) {
	if m != nil {
		m.shared.volatile.Add(float64(batches))
	}
}

// Outbox changes the number of bytes that wait for the store.
func (m *Metrics) Outbox(bytes int) {
	if m != nil {
		m.shared.outboxBytes.Add(float64(bytes))
	}
}

// Reinstated counts a run brought back.
func (m *Metrics) Reinstated() {
	if m != nil {
		m.shared.reinstated.Inc()
	}
}

// Buried counts a run that could not be brought back.
func (m *Metrics) Buried() {
	if m != nil {
		m.shared.buried.Inc()
	}
}

// Settled counts a time in which nothing began.
func (m *Metrics) Settled() {
	if m != nil {
		m.shared.settles.Inc()
	}
}

// SlotWait changes the number of runs that wait for a place at their gateway.
func (m *Metrics) SlotWait(delta int) {
	if m != nil {
		m.shared.slotWaits.Add(float64(delta))
	}
}

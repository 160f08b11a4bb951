// Package metrics holds the Prometheus collectors of the edge: one set a process,
// registered again on each new registry so that counters survive a reload of the
// configuration. Labels have few values; none names a user, a session or a
// profile.
package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "hermes_edge"

// Metrics is the set of collectors. Its methods are safe for concurrent use, do
// not block, and do nothing on a nil *Metrics.
type Metrics struct {
	connections       *prometheus.GaugeVec
	connectionsTotal  *prometheus.CounterVec
	connectionsClosed *prometheus.CounterVec
	upgrades          prometheus.Counter
	packets           *prometheus.CounterVec
	packetBytes       *prometheus.CounterVec
	watchers          prometheus.Gauge
	slowConsumers     *prometheus.CounterVec

	runs         *prometheus.CounterVec
	runSeconds   *prometheus.HistogramVec
	activeRuns   *prometheus.GaugeVec
	queueLength  prometheus.Gauge
	deltas       prometheus.Counter
	firstByte    prometheus.Histogram
	firstDelta   prometheus.Histogram
	upstreamErrs *prometheus.CounterVec

	rooms        prometheus.Gauge
	sessions     prometheus.Gauge
	authFailures *prometheus.CounterVec
	httpRequests *prometheus.CounterVec
	httpSeconds  *prometheus.HistogramVec

	shared shared
	redis  redis
}

// Buckets in seconds: an upstream that thinks takes minutes, a local store
// microseconds.
var (
	upstreamBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	runBuckets      = []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
	httpBuckets     = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)

// New makes a set of collectors that is registered nowhere yet.
func New() *Metrics {
	return &Metrics{
		connections:       gaugeVec("connections", "Open Engine.IO connections by transport.", "transport"),
		connectionsTotal:  counterVec("connections_opened_total", "Accepted Engine.IO handshakes by transport.", "transport"),
		connectionsClosed: counterVec("connections_closed_total", "Ended Engine.IO connections by transport and reason.", "transport", "reason"),
		upgrades:          counter("connection_upgrades_total", "Connections upgraded from polling to WebSocket."),
		packets:           counterVec("packets_total", "Engine.IO packets by direction.", "direction"),
		packetBytes:       counterVec("packet_bytes_total", "Bytes of Engine.IO packets by direction.", "direction"),
		watchers:          gauge("watchers", "Sockets that follow a session, counted once for each session."),
		slowConsumers:     counterVec("slow_consumer_actions_total", "What was done about clients that do not read.", "action"),

		runs:         counterVec("runs_total", "Ended runs by executor and outcome.", "executor", "outcome"),
		runSeconds:   histogramVec("run_duration_seconds", "Time from the start of a run to its end.", runBuckets, "executor"),
		activeRuns:   gaugeVec("active_runs", "Runs in progress by executor.", "executor"),
		queueLength:  gauge("queue_length", "Messages that wait for the run of their session to end."),
		deltas:       counter("deltas_total", "Text deltas received from upstreams."),
		firstByte:    histogram("upstream_first_byte_seconds", "Time from the upstream request to the first byte of its answer.", upstreamBuckets),
		firstDelta:   histogram("upstream_first_delta_seconds", "Time from the upstream request to the first text delta.", upstreamBuckets),
		upstreamErrs: counterVec("upstream_errors_total", "Failed upstream calls by class of error.", "class"),

		rooms:        gauge("rooms", "Sessions that are followed by at least one socket."),
		sessions:     gauge("sessions_loaded", "Sessions held in memory."),
		authFailures: counterVec("auth_failures_total", "Refused logins by reason.", "reason"),
		httpRequests: counterVec("http_requests_total", "Requests to the HTTP API by route and status.", "route", "status"),
		httpSeconds:  histogramVec("http_request_seconds", "Time of requests to the HTTP API.", httpBuckets, "route"),

		shared: newShared(), redis: newRedis(),
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return append(append(m.shared.collectors(), m.redis.collectors()...),
		m.connections, m.connectionsTotal, m.connectionsClosed, m.upgrades, m.packets, m.packetBytes,
		m.watchers, m.slowConsumers,
		m.runs, m.runSeconds, m.activeRuns, m.queueLength, m.deltas, m.firstByte, m.firstDelta, m.upstreamErrs,
		m.rooms, m.sessions, m.authFailures, m.httpRequests, m.httpSeconds)
}

// Register puts the collectors on a registry. A registry that has them already,
// because several modules of one configuration share it, is left as it is.
func (m *Metrics) Register(r prometheus.Registerer) error {
	for _, c := range m.collectors() {
		var already prometheus.AlreadyRegisteredError
		if err := r.Register(c); err != nil && !errors.As(err, &already) {
			return fmt.Errorf("metrics: %w", err)
		}
	}
	return nil
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

func counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}

func gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
}

func histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

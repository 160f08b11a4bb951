package metrics

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// use calls every method once or more, as a short life of an edge would.
func use(m *Metrics) {
	m.ConnectionOpened("polling")
	m.ConnectionOpened("websocket")
	m.ConnectionUpgraded("polling", "websocket")
	m.ConnectionClosed("websocket", "transport close")
	m.PacketsReceived(2, 100)
	m.PacketsSent(3, 200)
	m.SlowConsumer("closed")
	m.Watchers(3)
	m.Watchers(-1)
	m.Rooms(1)
	m.SessionsLoaded(2)
	m.RunStarted("responses")
	m.RunStarted("responses")
	m.RunEnded("responses", "completed", 3*time.Second)
	m.QueueLength(2)
	m.QueueLength(-1)
	m.Delta(5)
	m.FirstByte(20 * time.Millisecond)
	m.FirstDelta(300 * time.Millisecond)
	m.UpstreamError("auth")
	m.AuthFailed("failed")
	m.HTTPRequest("me", 200, time.Millisecond)
	m.FenceLost()
	m.TookOver("rerun")
	m.LogLag(time.Millisecond)
	m.Volatile(2)
	m.Outbox(300)
	m.Outbox(-100)
	m.Reinstated()
	m.Buried()
	m.Settled()
	m.SlotWait(1)
	m.RedisCall("submit", time.Millisecond, "")
	m.RedisCall("submit", time.Second, "unknown")
	m.RedisPipeline(3)
	m.RedisHint(time.Millisecond)
	m.RedisHint(-1)
	m.RedisBreaker(true)
	m.RedisBreaker(true)
	m.RedisBreaker(false)
	m.RedisGeneration()
	m.RedisReplicated(false)
}

// gather registers m on a new registry and returns the value of every series by
// name and labels: counters and gauges as they are, histograms by their count.
func gather(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			key := strings.TrimPrefix(f.GetName(), "hermes_edge_") + "{" + strings.Join(labels, ",") + "}"
			values[key] = series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestValues(t *testing.T) {
	m := New()
	use(m)
	want := map[string]float64{
		"active_runs{executor=responses}":                1,
		"buried_runs_total{}":                            1,
		"fence_losses_total{}":                           1,
		"gateway_waits{}":                                1,
		"log_lag_seconds{}":                              1,
		"outbox_bytes{}":                                 200,
		"reinstated_runs_total{}":                        1,
		"redis_breaker_openings_total{}":                 2,
		"redis_breakers_open{}":                          1,
		"redis_call_seconds{script=submit}":              2,
		"redis_errors_total{class=unknown}":              1,
		"redis_generation_changes_total{}":               1,
		"redis_hint_lag_seconds{}":                       1,
		"redis_pipeline_calls{}":                         1,
		"redis_replicated_writes_total{confirmed=false}": 1,
		"settles_total{}":                                1,
		"takeovers_total{kind=rerun}":                    1,
		"volatile_batches_total{}":                       2,
		"auth_failures_total{reason=failed}":             1,
		"connection_upgrades_total{}":                    1,
		"connections_closed_total{reason=transport close,transport=websocket}": 1,
		"connections_opened_total{transport=polling}":                          1,
		"connections_opened_total{transport=websocket}":                        1,
		"connections{transport=polling}":                                       0,
		"connections{transport=websocket}":                                     1,
		"deltas_total{}":                                                       5,
		"http_request_seconds{route=me}":                                       1,
		"http_requests_total{route=me,status=200}":                             1,
		"packet_bytes_total{direction=received}":                               100,
		"packet_bytes_total{direction=sent}":                                   200,
		"packets_total{direction=received}":                                    2,
		"packets_total{direction=sent}":                                        3,
		"queue_length{}":                                                       1,
		"rooms{}":                                                              1,
		"run_duration_seconds{executor=responses}":                             1,
		"runs_total{executor=responses,outcome=completed}":                     1,
		"sessions_loaded{}":                                                    2,
		"slow_consumer_actions_total{action=closed}":                           1,
		"upstream_errors_total{class=auth}":                                    1,
		"upstream_first_byte_seconds{}":                                        1,
		"upstream_first_delta_seconds{}":                                       1,
		"watchers{}":                                                           2,
	}
	if got := gather(t, m); !maps.Equal(got, want) {
		for key := range maps.Keys(got) {
			if v, ok := want[key]; !ok || v != got[key] {
				t.Errorf("%s is %v, want %v", key, got[key], want[key])
			}
		}
		for key := range want {
			if _, ok := got[key]; !ok {
				t.Errorf("%s is missing", key)
			}
		}
	}
}

// Every collector of the struct is registered and has help, a name of ours, and no
// label that could name a user or a session.
func TestEveryCollectorIsExported(t *testing.T) {
	m := New()
	fields := reflect.TypeFor[Metrics]().NumField() - 2 + reflect.TypeFor[shared]().NumField() + reflect.TypeFor[redis]().NumField()
	if listed := len(m.collectors()); fields != listed {
		t.Errorf("%d collectors, %d of them are registered", fields, listed)
	}
	use(m)
	registry := prometheus.NewPedanticRegistry()
	if err := m.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != len(m.collectors()) {
		t.Errorf("%d families of %d collectors, %v", len(families), len(m.collectors()), err)
	}
	labels := []string{"transport", "reason", "direction", "action", "executor", "outcome", "class", "operation", "route", "status", "kind", "script", "confirmed"}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "hermes_edge_") || f.GetHelp() == "" {
			t.Errorf("%s: name or help", f.GetName())
		}
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if !slices.Contains(labels, l.GetName()) {
					t.Errorf("%s: label %s may have many values", f.GetName(), l.GetName())
				}
			}
		}
	}
}

// Each load of a configuration makes a new registry; the counts go on. Several
// modules of one configuration register on the same one.
func TestRegisterAgain(t *testing.T) {
	m := New()
	m.Delta(1)
	for range 2 {
		registry := prometheus.NewPedanticRegistry()
		for range 2 {
			if err := m.Register(registry); err != nil {
				t.Fatal(err)
			}
		}
		m.Delta(1)
	}
	if got := gather(t, m)["deltas_total{}"]; got != 3 {
		t.Errorf("deltas %v, want 3 over several registries", got)
	}
}

type refusing struct{ prometheus.Registerer }

var errRefused = errors.New("refused")

func (refusing) Register(prometheus.Collector) error { return errRefused }

func TestRegisterReportsFailures(t *testing.T) {
	if err := New().Register(refusing{}); !errors.Is(err, errRefused) {
		t.Errorf("Register: %v", err)
	}
}

func TestNilCountsNothing(t *testing.T) {
	use(nil)
}

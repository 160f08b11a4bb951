package caddymodule

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hermes-edge/hermes-edge/adapter/metrics"
)

// processMetrics are made once in a process: each configuration has a registry of
// its own, and registering the same collectors again keeps their counts over
// reloads.
var processMetrics = sync.OnceValue(metrics.New)

// registerMetrics puts the process's collectors on the registry of a configuration.
func registerMetrics(registry *prometheus.Registry) error {
	if registry == nil {
		return nil
	}
	return processMetrics().Register(registry)
}

package metrics

import (
	"strconv"
	"time"
)

// RunStarted counts a run in; executor is the executor's class.
func (m *Metrics) RunStarted(executor string) {
	if m != nil {
		m.activeRuns.WithLabelValues(executor).Inc()
	}
}

// RunEnded counts a run out; outcome is completed, failed, aborted or lost.
func (m *Metrics) RunEnded(executor, outcome string, d time.Duration) {
	if m == nil {
		return
	}
	m.activeRuns.WithLabelValues(executor).Dec()
	m.runs.WithLabelValues(executor, outcome).Inc()
	m.runSeconds.WithLabelValues(executor).Observe(d.Seconds())
}

// QueueLength changes the number of waiting messages.
func (m *Metrics) QueueLength(delta int) {
	if m != nil {
		m.queueLength.Add(float64(delta))
	}
}

// Delta counts n text deltas from an upstream.
func (m *Metrics) Delta(n int) {
	if m != nil {
		m.deltas.Add(float64(n))
	}
}

// FirstByte records how long an upstream took to answer.
func (m *Metrics) FirstByte(d time.Duration) {
	if m != nil {
		m.firstByte.Observe(d.Seconds())
	}
}

// FirstDelta records how long an upstream took to stream its first text.
func (m *Metrics) FirstDelta(d time.Duration) {
	if m != nil {
		m.firstDelta.Observe(d.Seconds())
	}
}

// UpstreamError counts a failed upstream call by the gateway's class of error.
func (m *Metrics) UpstreamError(class string) {
	if m != nil {
		m.upstreamErrs.WithLabelValues(class).Inc()
	}
}

// SlowConsumer counts what was done about a client that does not read.
func (m *Metrics) SlowConsumer(action string) {
	if m != nil {
		m.slowConsumers.WithLabelValues(action).Inc()
	}
}

// Watchers changes the number of followed sessions, over all sockets.
func (m *Metrics) Watchers(delta int) {
	if m != nil {
		m.watchers.Add(float64(delta))
	}
}

// Rooms changes the number of sessions with at least one follower.
func (m *Metrics) Rooms(delta int) {
	if m != nil {
		m.rooms.Add(float64(delta))
	}
}

// SessionsLoaded changes the number of sessions held in memory.
func (m *Metrics) SessionsLoaded(delta int) {
	if m != nil {
		m.sessions.Add(float64(delta))
	}
}

// ConnectionOpened counts an accepted handshake on a transport.
func (m *Metrics) ConnectionOpened(transport string) {
	if m == nil {
		return
	}
	m.connections.WithLabelValues(transport).Inc()
	m.connectionsTotal.WithLabelValues(transport).Inc()
}

// ConnectionUpgraded moves a connection from one transport to another.
func (m *Metrics) ConnectionUpgraded(from, to string) {
	if m == nil {
		return
	}
	m.connections.WithLabelValues(from).Dec()
	m.connections.WithLabelValues(to).Inc()
	m.upgrades.Inc()
}

// ConnectionClosed counts the end of a connection on the transport it had last.
func (m *Metrics) ConnectionClosed(transport, reason string) {
	if m == nil {
		return
	}
	m.connections.WithLabelValues(transport).Dec()
	m.connectionsClosed.WithLabelValues(transport, reason).Inc()
}

// PacketsReceived counts Engine.IO packets of clients and their bytes.
func (m *Metrics) PacketsReceived(packets, bytes int) { m.traffic("received", packets, bytes) }

// PacketsSent counts Engine.IO packets to clients and their bytes.
func (m *Metrics) PacketsSent(packets, bytes int) { m.traffic("sent", packets, bytes) }

func (m *Metrics) traffic(direction string, packets, bytes int) {
	if m == nil {
		return
	}
	m.packets.WithLabelValues(direction).Add(float64(packets))
	m.packetBytes.WithLabelValues(direction).Add(float64(bytes))
}

// AuthFailed counts a refused login; reason is failed, profile or unavailable.
func (m *Metrics) AuthFailed(reason string) {
	if m != nil {
		m.authFailures.WithLabelValues(reason).Inc()
	}
}

// HTTPRequest records a request to the HTTP API; route is the pattern, not the
// path.
func (m *Metrics) HTTPRequest(route string, status int, d time.Duration) {
	if m == nil {
		return
	}
	m.httpRequests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.httpSeconds.WithLabelValues(route).Observe(d.Seconds())
}

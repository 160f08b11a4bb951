package main

import (
	"fmt"
	"slices"
	"time"
)

// sizes are what -short changes. Idle connections are held for one interval of
// heartbeats, so that each of them has one.
type sizes struct {
	idleConnections int
	idleHold        time.Duration
	echoWarmUp      int64 // messages
	echoHold        time.Duration
	relayHold       time.Duration
	burstBatches    int
	appendHold      time.Duration
	stormClients    int
	stormSessions   int
	outageStreams   int
	outageAway      time.Duration
	growNodes       []int
	growSessions    []int
	growHold        time.Duration
	limit           time.Duration // of one measurement
}

var (
	fullSizes = sizes{
		idleConnections: 10_000, idleHold: pingInterval,
		echoWarmUp: 20_000, echoHold: time.Second,
		relayHold: 4 * time.Second, burstBatches: 6, appendHold: 4 * time.Second,
		stormClients: 10_000, stormSessions: 100,
		outageStreams: 200, outageAway: 5 * time.Second,
		growNodes: []int{1, 2, 4}, growSessions: []int{10, 100, 1000}, growHold: 5 * time.Second,
		limit: 4 * time.Minute,
	}
	shortSizes = sizes{
		idleConnections: 2_000, idleHold: pingInterval,
		echoWarmUp: 10_000, echoHold: 500 * time.Millisecond,
		relayHold: time.Second, burstBatches: 3, appendHold: time.Second,
		stormClients: 500, stormSessions: 10,
		outageStreams: 20, outageAway: 2 * time.Second,
		growNodes: []int{1, 2}, growSessions: []int{10, 50}, growHold: time.Second,
		limit: 2 * time.Minute,
	}
)

// Loads that budgets name.
const (
	relayStreams, relayRate = 200, 50
	calmRate                = 20 // of relayStreams, as the design has it
	burstRuns, burstDeltas  = 20, 1000
	spareFiles              = 500 // besides one for each connection
)

// allIDs are the words that -only knows.
var allIDs = []string{"b1", "b3", "b4", "burst", "b5", "b7", "b11", "grow"}

// suite returns the scenarios with these ids.
func suite(b *binaries, s sizes, only []string) []scenario {
	all := []scenario{
		idle(b, s),
		echo(b, s, 64, 50), echo(b, s, 64, 1000), echo(b, s, 1024, 50),
		relay(b, s), burst(b, s),
		durable(b, s, relayRate), durable(b, s, calmRate), durableBurst(b, s), appends(b, s),
		returning(b, s), outages(b, s), growth(b, s),
	}
	return slices.DeleteFunc(all, func(s scenario) bool { return !slices.Contains(only, s.id) })
}

func idle(b *binaries, s sizes) scenario {
	load := func(namespace string) idleLoad {
		return idleLoad{namespace: namespace, connections: s.idleConnections, hold: s.idleHold}
	}
	info := func(ours, metric, label, unit string) row {
		return row{ours: ours, peer: nodeName, metric: metric, label: label, unit: unit}
	}
	resident := func(ours string) row {
		r := info(ours, residentPer, "memory/connection", "kB")
		r.budget = budget{ratio: 0.60, absolute: 8}
		return r
	}
	return scenario{
		id: "b1", title: fmt.Sprintf("%d idle connections", s.idleConnections), pinned: true, limit: s.limit,
		sides: []side{
			{edgeName, b.startEdge, load(chatNamespace).measure},
			{socketName, b.startSocket, load("/").measure},
			{nodeName, b.startNode, load("/").measure},
		},
		rows: []row{
			resident(edgeName), resident(socketName),
			info(edgeName, livePer, "in use/connection", "kB"),
			info(socketName, livePer, "in use/connection", "kB"),
			info(edgeName, peakPer, "peak/connection", "kB"),
			info(edgeName, cpuPerUnit, "CPU/heartbeat", "µs"),
			info(socketName, cpuPerUnit, "CPU/heartbeat", "µs"),
			info(edgeName, connectRate, "connects/s", ""),
			info(edgeName, baseMemory, "idle process", "MB"),
			info(edgeName, startTime, "start", "ms"),
			disturbance(edgeName, nodeName),
		},
	}
}

func echo(b *binaries, s sizes, size, connections int) scenario {
	load := echoLoad{connections: connections, size: size, warmUp: s.echoWarmUp, hold: s.echoHold}
	compare := func(metric, label, unit string, limits budget) row {
		return row{ours: socketName, peer: nodeName, metric: metric, label: label, unit: unit, budget: limits}
	}
	return scenario{
		id: "b3", title: fmt.Sprintf("echo %d B, %d connections", size, connections), pinned: true, limit: s.limit,
		sides: []side{
			{socketName, b.startSocket, load.measure},
			{nodeName, b.startNode, load.measure},
			{socketName + again, b.startSocket, load.measure},
		},
		rows: []row{
			compare(cpuPerUnit, "CPU/message", "µs", budget{ratio: 0.45}),
			compare(perSecond, "messages/s", "", budget{ratio: 2, atLeast: true}),
			compare(latencyP50, "round trip p50", "ms", budget{}),
			compare(latencyP99, "round trip p99", "ms", budget{}),
			selfCheck(socketName),
			disturbance(socketName, nodeName),
			generatorLoad(socketName), generatorLoad(nodeName),
		},
	}
}

func relay(b *binaries, s sizes) scenario {
	load := func(d dial) relayLoad {
		return relayLoad{dial: d, streams: relayStreams, rate: relayRate, hold: s.relayHold}
	}
	compare := func(metric, label, unit string, limits budget) row {
		return row{ours: edgeName, peer: proxyName, metric: metric, label: label, unit: unit, budget: limits}
	}
	return scenario{
		id: "b4", title: fmt.Sprintf("relay %d streams x %d/s", relayStreams, relayRate), pinned: true, limit: s.limit,
		sides: []side{
			{edgeName, b.startEdge, load(dialChat).measure},
			{proxyName, b.startProxy, load(dialStream).measure},
			{edgeName + again, b.startEdge, load(dialChat).measure},
		},
		rows: []row{
			compare(cpuPerUnit, "CPU/delta", "µs", budget{ratio: 0.75}),
			compare(latencyP50, "delay p50", "ms", budget{}),
			compare(latencyP99, "delay p99", "ms", budget{ratio: 1}),
			compare(residentPer, "memory/stream", "kB", budget{ratio: 0.4}),
			compare(perEvent, "deltas/event", "", budget{}),
			compare(perSecond, "deltas/s", "", budget{}),
			selfCheck(edgeName),
			disturbance(edgeName, proxyName),
			generatorLoad(edgeName), generatorLoad(proxyName),
		},
	}
}

func burst(b *binaries, s sizes) scenario {
	load := func(d dial) burstLoad {
		return burstLoad{dial: d, runs: burstRuns, deltas: burstDeltas, batches: s.burstBatches}
	}
	compare := func(metric, label, unit string, limits budget) row {
		return row{ours: edgeName, peer: proxyName, metric: metric, label: label, unit: unit, budget: limits}
	}
	return scenario{
		id: "burst", title: fmt.Sprintf("%d runs x %d deltas unpaced", burstRuns, burstDeltas), limit: s.limit,
		sides: []side{
			{edgeName, b.startEdge, load(dialChat).measure},
			{proxyName, b.startProxy, load(dialStream).measure},
			{edgeName + again, b.startEdge, load(dialChat).measure},
		},
		rows: []row{
			compare(perSecond, "deltas/s", "", budget{absolute: 60_000, atLeast: true}),
			compare(cpuPerUnit, "CPU/delta", "µs", budget{}),
			compare(perEvent, "deltas/event", "", budget{}),
			selfCheck(edgeName),
		},
	}
}

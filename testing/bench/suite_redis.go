package main

import (
	"fmt"
	"time"
)

// The loads with a Redis that budgets name.
const (
	growRate               = 10 // deltas a second of each run
	stormMissed, stormRate = 200, 100
	outageRate             = 20
	appendBatch            = 8
	appendLargest          = 32 // what the edge sends at most in one call
)

// The deployments by the names of the table.
const (
	oneNode      = "edge + Redis"
	oneNodeAOF   = "edge + Redis, everysec"
	twoNodes     = "2 edges + Redis, far"
	stormEdge    = "edge, 2nd node takes all"
	stormPeer    = "Node socket.io, recovery"
	pausedStore  = "Redis hangs"
	killedStore  = "Redis crashes"
	durableRatio = 1.25
)

func appendName(batch int) string { return fmt.Sprintf("Redis alone, x%d", batch) }

// durable is B5: the load of B4 with everything in the log before it is shown.
func durable(b *binaries, s sizes, rate int) scenario {
	load := func(d dial) relayLoad {
		return relayLoad{dial: d, streams: relayStreams, rate: rate, hold: s.relayHold}
	}
	var rows []row
	for _, name := range []string{oneNode, oneNodeAOF, twoNodes} {
		add := func(metric, label, unit string, limits budget) {
			rows = append(rows, row{ours: name, peer: proxyName, metric: metric, label: label, unit: unit, budget: limits})
		}
		add(cpuPerUnit, "CPU/delta, edges", "µs", budget{ratio: durableRatio})
		add(storeCPU, "CPU/delta, Redis", "µs", budget{})
		add(sumCPU, "CPU/delta, together", "µs", budget{})
		add(storeCommands, "commands/delta", "", budget{})
		add(storeScripts, "script calls/delta", "", budget{})
		add(latencyP50, "delay p50", "ms", budget{})
		add(latencyP99, "delay p99", "ms", budget{absolute: 15})
		add(perEvent, "deltas/event", "", budget{})
		add(perSecond, "deltas/s", "", budget{})
		rows = append(rows, disturbance(name, proxyName), generatorLoad(name))
	}
	return scenario{
		id: "b5", title: fmt.Sprintf("durable relay %d streams x %d/s", relayStreams, rate), pinned: true, limit: s.limit,
		sides: []side{
			{oneNode, b.startCluster(1, inMemory), load(dialChat).measure},
			{proxyName, b.startProxy, load(dialStream).measure},
			{oneNodeAOF, b.startCluster(1, everySecond), load(dialChat).measure},
			{twoNodes, b.startCluster(2, inMemory), load(dialFar).measure},
			{oneNode + again, b.startCluster(1, inMemory), load(dialChat).measure},
		},
		rows: append(rows, selfCheck(oneNode)),
	}
}

func durableBurst(b *binaries, s sizes) scenario {
	load := func(d dial) burstLoad {
		return burstLoad{dial: d, runs: burstRuns, deltas: burstDeltas, batches: s.burstBatches}
	}
	var rows []row
	for _, name := range []string{oneNode, twoNodes} {
		add := func(metric, label, unit string, limits budget) {
			rows = append(rows, row{ours: name, peer: proxyName, metric: metric, label: label, unit: unit, budget: limits})
		}
		add(perSecond, "deltas/s", "", budget{})
		add(cpuPerUnit, "CPU/delta, edges", "µs", budget{})
		add(storeCPU, "CPU/delta, Redis", "µs", budget{})
		add(storeCeiling, "deltas/s of Redis CPU", "", budget{absolute: 120_000, atLeast: true})
		add(storeScripts, "script calls/delta", "", budget{})
		add(perEvent, "deltas/event", "", budget{})
	}
	return scenario{
		id: "b5", title: fmt.Sprintf("durable, %d runs x %d deltas unpaced", burstRuns, burstDeltas), limit: s.limit,
		sides: []side{
			{oneNode, b.startCluster(1, inMemory), load(dialChat).measure},
			{proxyName, b.startProxy, load(dialStream).measure},
			{twoNodes, b.startCluster(2, inMemory), load(dialFar).measure},
			{oneNode + again, b.startCluster(1, inMemory), load(dialChat).measure},
		},
		rows: append(rows, selfCheck(oneNode)),
	}
}

// appends asks what one Redis can take.
func appends(b *binaries, s sizes) scenario {
	one := scenario{id: "b5", title: fmt.Sprintf("events into Redis, %d sessions", appendSessions), pinned: true, limit: s.limit}
	for _, batch := range []int{1, appendBatch, appendLargest} {
		name, limits := appendName(batch), budget{absolute: 120_000, atLeast: true}
		if batch == 1 {
			limits = budget{}
		}
		one.sides = append(one.sides, side{name, b.startStore, appendLoad{batch: batch, hold: s.appendHold}.measure})
		one.rows = append(one.rows,
			row{ours: name, metric: perSecond, label: "events/s", budget: limits},
			row{ours: name, metric: storeCeiling, label: "events/s of Redis CPU"},
			row{ours: name, metric: storeCPU, label: "CPU/event", unit: "µs"},
			row{ours: name, metric: storeCommands, label: "commands/event"},
			row{ours: name, metric: load, label: "generator's core", unit: "%"},
		)
	}
	return one
}

// returning is B7.
func returning(b *binaries, s sizes) scenario {
	storm := stormLoad{clients: s.stormClients, sessions: s.stormSessions, missed: stormMissed, rate: stormRate}
	compare := func(metric, label, unit string, limits budget) row {
		return row{ours: stormEdge, peer: stormPeer, metric: metric, label: label, unit: unit, budget: limits}
	}
	return scenario{
		id: "b7", title: fmt.Sprintf("%d clients return at once", s.stormClients), pinned: true, limit: s.limit,
		sides: []side{
			{stormEdge, b.startCluster(2, inMemory), storm.measure},
			{stormPeer, b.startRecoveringNode, storm.measure},
		},
		rows: []row{
			compare(caughtUp, "all caught up", "s", budget{ratio: 0.6}),
			compare(caughtUpHalf, "half caught up", "s", budget{}),
			compare(connectRate, "connects/s", "", budget{}),
			compare(missedPer, "deltas missed by each", "", budget{}),
			compare(lostDeltas, "deltas lost", "", budget{none: true}),
			compare(doubledDeltas, "deltas doubled", "", budget{none: true}),
			compare(forgotten, "connections forgotten", "", budget{none: true}),
			compare(snapshots, "snapshots", "", budget{none: true}),
			compare(failures, "errors", "", budget{none: true}),
			compare(cpuPerUnit, "CPU/delta", "µs", budget{}),
			compare(storeCPU, "CPU/delta, Redis", "µs", budget{}),
			compare(storeCommands, "commands/delta", "", budget{}),
			compare(peakTotal, "peak memory", "MB", budget{}),
			disturbance(stormEdge, stormPeer),
			{ours: stormEdge, peer: stormPeer, metric: load, label: "generator's core", unit: "%"},
		},
	}
}

// outages is B11.
func outages(b *binaries, s sizes) scenario {
	load := func(m mishap) outageLoad {
		return outageLoad{mishap: m, streams: s.outageStreams, rate: outageRate, away: s.outageAway}
	}
	var rows []row
	for _, name := range []string{pausedStore, killedStore} {
		add := func(metric, label, unit string, limits budget) {
			rows = append(rows, row{ours: name, metric: metric, label: label, unit: unit, budget: limits})
		}
		add(firstRefusal, "first refusal after", "ms", budget{})
		add(slowRefusal, "slowest refusal", "ms", budget{absolute: 2000})
		add(fastRefusal, "slowest after the first second", "ms", budget{absolute: 300})
		add(acceptedAfter, "accepted again after", "s", budget{absolute: 2})
		add(startedAfter, "running again after", "s", budget{})
		add(durableAfter, "streams stored again after", "s", budget{absolute: 2})
		add(volatileShare, "events shown before stored", "%", budget{})
		add(longestDelay, "longest delay of a delta", "ms", budget{})
		add(lostDeltas, "deltas lost", "", budget{none: true})
		add(doubledDeltas, "deltas doubled", "", budget{none: true})
		add(reconnects, "reconnects of streams", "", budget{})
		add(failures, "messages without an answer", "", budget{none: true})
	}
	return scenario{
		id: "b11", title: fmt.Sprintf("Redis away for %s, %d streams x %d/s", s.outageAway.Round(time.Second), s.outageStreams, outageRate),
		pinned: true, limit: s.limit,
		sides: []side{
			{pausedStore, b.startCluster(1, everySecond), load(paused).measure},
			{killedStore, b.startCluster(1, everySecond), load(killed).measure},
		},
		rows: rows,
	}
}

// growth asks how the cost of a delta changes with nodes and sessions. Every run
// is watched on another node than its own, if there is one.
func growth(b *binaries, s sizes) scenario {
	one := scenario{id: "grow", title: fmt.Sprintf("sessions x %d/s, watched far", growRate), limit: s.limit}
	for _, sessions := range s.growSessions {
		alone := growName(s.growNodes[0], sessions)
		for _, nodes := range s.growNodes {
			name := growName(nodes, sessions)
			load := relayLoad{dial: dialFar, streams: sessions, rate: growRate, hold: s.growHold}
			one.sides = append(one.sides, side{name, b.startCluster(nodes, inMemory), load.measure})
			for _, r := range []row{
				{metric: cpuPerUnit, label: "CPU/delta, edges", unit: "µs"},
				{metric: storeCPU, label: "CPU/delta, Redis", unit: "µs"},
				{metric: storeCommands, label: "commands/delta"},
				{metric: storeScripts, label: "script calls/delta"},
			} {
				if r.ours = name; name != alone {
					r.peer = alone
				}
				one.rows = append(one.rows, r)
			}
		}
	}
	return one
}

func growName(nodes, sessions int) string { return fmt.Sprintf("%d x %d sessions", nodes, sessions) }

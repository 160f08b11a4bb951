package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// gauges are the metrics that must come back to zero.
type gauges struct{ queue, watchers, rooms, sessions, outbox, settled, reinstated, buried, fenced atomic.Int64 }

func (g *gauges) RunStarted(string)                      {}
func (g *gauges) RunEnded(string, string, time.Duration) {}
func (g *gauges) Delta(int)                              {}
func (g *gauges) FirstDelta(time.Duration)               {}
func (g *gauges) SlowConsumer(string)                    {}
func (g *gauges) FenceLost()                             { g.fenced.Add(1) }
func (g *gauges) TookOver(string)                        {}
func (g *gauges) LogLag(time.Duration)                   {}
func (g *gauges) Volatile(int)                           {}
func (g *gauges) Outbox(d int)                           { g.outbox.Add(int64(d)) }
func (g *gauges) Reinstated()                            { g.reinstated.Add(1) }
func (g *gauges) Buried()                                { g.buried.Add(1) }
func (g *gauges) SlotWait(int)                           {}
func (g *gauges) Settled()                               { g.settled.Add(1) }
func (g *gauges) QueueLength(d int)                      { g.queue.Add(int64(d)) }
func (g *gauges) Watchers(d int)                         { g.watchers.Add(int64(d)) }
func (g *gauges) Rooms(d int)                            { g.rooms.Add(int64(d)) }
func (g *gauges) SessionsLoaded(d int)                   { g.sessions.Add(int64(d)) }

// What is counted up is counted down, over queue, cancel, restart and leave.
func TestGaugesComeBackToZero(t *testing.T) {
	r := newRig(t)
	a, b := r.client("alice"), r.client("alice")
	b.resume("s1")
	a.run("s1", "q1", "one")
	c := r.next()
	a.run("s1", "q2", "two")
	a.run("s1", "q3", "three")
	_, at := a.wait(0, "two queued", func(e received) bool { return e.name == "run.queued" && e.num("queue_length") == 2 })
	r.e.CancelQueued(t.Context(), a, encode(map[string]any{"session_id": "s1", "queue_id": "q2"}))
	a.waitFor(at, "run.queued")
	g := r.gauges
	if q, w, rooms := g.queue.Load(), g.watchers.Load(), g.rooms.Load(); q != 1 || w != 2 || rooms != 1 {
		t.Errorf("%d queued, %d watchers, %d rooms", q, w, rooms)
	}
	c.end(engine.Outcome{Output: "1"})
	r.next()
	r.kill()
	if q := g.queue.Load(); q != 0 {
		t.Errorf("%d queued after a restart", q)
	}
	r.next().end(engine.Outcome{Output: "3"})
	late := r.client("alice")
	for late.resume("s1").data["isWorking"] == true {
		late.waitFor(0, "run.completed")
	}
	a.leave()
	b.leave()
	late.leave()
	r.e.Close()
	if q, w, rooms, s := g.queue.Load(), g.watchers.Load(), g.rooms.Load(), g.sessions.Load(); q != 0 || w != 0 || rooms != 0 || s != 0 {
		t.Errorf("left: %d queued, %d watchers, %d rooms, %d sessions", q, w, rooms, s)
	}
}

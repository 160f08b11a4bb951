package simulation

import (
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// Times of the simulation, in milliseconds of virtual time.
const (
	leaseTTL   = 15_000
	callLimit  = 1_000  // a node gives a call up
	budget     = 2_000  // for storing a message
	longestLag = 25_000 // a request may be executed this late
	faultsEnd  = 50_000
	longest    = 500_000
	quietTail  = 26_000 // no request is under way any more
)

var background = context.Background()

// event is something that happens at a time.
type event struct {
	at  int64
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// world is one run of the simulation.
type world struct {
	rng     *rand.Rand
	now     int64
	seq     int
	events  events
	mem     *memory.Store
	store   store.Store // mem, or a mutation of it
	without rule
	nodes   []*node
	clients []*client
	sids    []string
	calm    bool
	names   int
	falls   int
	falling bool
	// quietUntil: no other fault begins before, the store has fallen back.
	quietUntil int64

	*truth
}

// rule is a rule of the contract that a mutation takes away.
type rule string

const (
	nothing    rule = ""
	tokenCheck rule = "token check"
	writeAhead rule = "ph write-ahead"
	ack        rule = "ack"
	notAfter   rule = "notAfter"
	park       rule = "park"
	settle     rule = "settle"
	reinstate  rule = "Reinstate"
)

func newWorld(seed uint64, without rule) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), now: 1_000_000, without: without, truth: newTruth()}
	limits := store.DefaultLimits()
	limits.LogKeep, limits.LogKeepBytes = 1<<20, 1<<30
	w.mem = memory.New(memory.Options{
		Clock: func() int64 { return w.now }, Limits: limits, FallsBack: true,
		Random: func(n int) string { return fmt.Sprintf("%0*d", n, w.rng.IntN(1_000_000)) },
	})
	w.store = mutate(w, without)
	w.sids = []string{"s1", "s2"}
	for i := range 3 {
		n := &node{w: w, id: fmt.Sprint("n", i)}
		w.nodes = append(w.nodes, n)
		n.boot()
	}
	for i := range 4 {
		c := &client{w: w, id: i, sid: w.sids[i%len(w.sids)], messages: 3 + w.rng.IntN(3)}
		w.clients = append(w.clients, c)
		w.after(w.upTo(3000), c.next)
		if c.watches = i < len(w.sids); c.watches {
			c.watch()
		}
	}
	w.after(w.upTo(3000), w.fault)
	if w.chance(60) {
		for range 1 + w.rng.IntN(2) {
			w.after(w.upTo(faultsEnd), w.fallSoon)
		}
	}
	return w
}

// run lets time pass until everything is quiet, or too long.
func (w *world) run() {
	end := w.now + longest
	look, since := w.now, int64(0)
	for len(w.events) > 0 && w.now < end && len(w.violations) == 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		if w.now < look {
			continue
		}
		look = w.now + 1000
		switch {
		case !w.calm || !w.quiet():
			since = w.now
		case w.now > since+quietTail:
			return
		}
	}
}

// quiet reports whether nothing is left to be done.
func (w *world) quiet() bool {
	for _, c := range w.clients {
		if !c.finished || (c.watches && !c.caughtUp()) {
			return false
		}
	}
	for _, sid := range w.sids {
		if h := w.head(sid); h.Busy() {
			return false
		}
	}
	return true
}

func (w *world) head(sid string) *store.Session {
	h, err := w.mem.Head(background, sid)
	if err != nil {
		panic(err)
	}
	return &h[0]
}

// after schedules something.
func (w *world) after(delay int64, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + delay, w.seq, do})
}

func (w *world) upTo(n int64) int64      { return w.rng.Int64N(n) + 1 }
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }
func (w *world) name(prefix string) string {
	w.names++
	return fmt.Sprint(prefix, w.names)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// fault does something bad to a node, and goes on doing so for a while.
func (w *world) fault() {
	if w.now > 1_000_000+faultsEnd {
		w.calm = true
		return
	}
	if w.now < w.quietUntil {
		w.after(w.quietUntil-w.now+w.upTo(3000), w.fault)
		return
	}
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch w.rng.IntN(5) {
	case 0:
		n.kill(w.upTo(20_000))
	case 1, 2:
		n.paused = max(n.paused, w.now+w.upTo(40_000))
	case 3:
		n.cut = w.now + w.upTo(25_000)
	case 4:
		n.drain()
	}
	w.after(w.upTo(7000), w.fault)
}

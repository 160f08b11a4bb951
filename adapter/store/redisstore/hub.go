package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times of subscription connections.
const (
	probeInterval = 5 * time.Second // silence after which a connection is probed
	maxSilences   = 2               // probes without an echo before it is given up
)

// hub holds the node's subscriptions. Channels are asked for by name and placed on
// connections by one goroutine, which compares what is wanted with what was asked
// for: so a channel left and wanted again at once ends up subscribed.
//
// In a cluster of Redis 7 or newer a session's hints stay on the shard that has its
// slot, and there is a connection to each shard with sessions that are watched.
// Everything else, this node's own channel too, is on one connection.
type hub struct {
	st       *Store
	interval time.Duration
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	wake     chan struct{}
	sharded  atomic.Bool

	mu     sync.Mutex
	closed bool
	topics map[string]*topic
	left   map[string]*wire    // channels that nobody listens to any more, and where
	dirty  map[string]struct{} // channels whose place may have to change
	wires  map[string]*wire    // by the address of their shard; "": any server
	rests  map[string]*rest    // of addresses where a connection was lost
}

// topic is a channel with listeners.
type topic struct {
	subs  map[*subscription]struct{}
	wire  *wire // where it was asked for
	ready bool  // the server has confirmed it
}

// rest is how long no connection is made to an address.
type rest struct {
	until time.Time
	next  time.Duration
}

func newHub(st *Store) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{
		st: st, interval: probeInterval, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1),
		topics: make(map[string]*topic), left: make(map[string]*wire), dirty: make(map[string]struct{}),
		wires: make(map[string]*wire), rests: make(map[string]*rest),
	}
	if st.opts.probeInterval > 0 {
		h.interval = st.opts.probeInterval
	}
	h.sharded.Store(st.opts.Mode == Cluster)
	h.topics[st.nodeChannel()] = &topic{}
	h.change(st.nodeChannel())
	h.work.Go(h.place)
	return h
}

func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.cancel()
	h.renew()
	h.work.Wait()
}

// renew makes all connections anew.
func (h *hub) renew() {
	h.mu.Lock()
	var all []*wire
	for _, w := range h.wires {
		all = append(all, w)
	}
	h.mu.Unlock()
	for _, w := range all {
		w.end(nil)
	}
}

// add enters a listener and reports whether its channel is established already.
func (h *hub) add(s *subscription) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.channel]
	if t == nil {
		t = &topic{subs: make(map[*subscription]struct{})}
		h.topics[s.channel] = t
		h.change(s.channel)
	}
	t.subs[s] = struct{}{}
	return t.ready
}

func (h *hub) remove(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[s.channel]
	if t == nil {
		return
	}
	delete(t.subs, s)
	if len(t.subs) > 0 {
		return
	}
	delete(h.topics, s.channel)
	if t.wire != nil {
		h.left[s.channel] = t.wire
	}
	h.change(s.channel)
}

// change has a channel placed anew. The caller holds mu.
func (h *hub) change(channel string) {
	h.dirty[channel] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// place puts channels on connections until the hub closes.
func (h *hub) place() {
	for {
		again := h.placeAll()
		var timer <-chan time.Time
		if again > 0 {
			timer = time.After(again)
		}
		select {
		case <-h.wake:
		case <-timer:
		case <-h.ctx.Done():
			return
		}
	}
}

// placeAll places what has changed. What has no place yet is tried again after the
// time that it returns.
func (h *hub) placeAll() (again time.Duration) {
	h.mu.Lock()
	channels := make([]string, 0, len(h.dirty))
	for c := range h.dirty {
		channels = append(channels, c)
	}
	clear(h.dirty)
	h.mu.Unlock()
	for _, c := range channels {
		if wait := h.placeOne(c); wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again
}

func (h *hub) placeOne(channel string) (wait time.Duration) {
	to, err := h.shard(channel)
	h.mu.Lock()
	defer h.mu.Unlock()
	t, old := h.topics[channel], h.left[channel]
	delete(h.left, channel)
	if t == nil {
		old.ask(nil, channel)
		return 0
	}
	if err != nil {
		h.dirty[channel] = struct{}{}
		return probeFirst
	}
	w, wait := h.wire(to)
	if w == nil {
		h.dirty[channel] = struct{}{}
		return wait
	}
	for _, from := range []*wire{old, t.wire} {
		if from != w {
			from.ask(nil, channel)
		}
	}
	t.wire = w
	w.ask(&channel, "")
	return 0
}

// shard says where the hints of a channel are to be heard.
type shard struct {
	addr    string
	connect func(context.Context, ...string) *redis.PubSub
}

func (h *hub) shard(channel string) (shard, error) {
	l := h.st.use()
	defer l.release()
	cluster, ok := l.client.(*redis.ClusterClient)
	if !ok || !h.sharded.Load() || channel == h.st.nodeChannel() {
		return shard{"", l.client.Subscribe}, nil
	}
	ctx, cancel := l.timeout(h.ctx)
	defer cancel()
	master, err := cluster.MasterForKey(ctx, channel)
	if err != nil {
		return shard{}, err
	}
	return shard{master.Options().Addr, master.SSubscribe}, nil
}

// wire returns the connection to a shard, or how long none is made. The caller
// holds mu.
func (h *hub) wire(to shard) (*wire, time.Duration) {
	if w := h.wires[to.addr]; w != nil {
		return w, 0
	}
	if r := h.rests[to.addr]; r != nil {
		if wait := time.Until(r.until); wait > 0 {
			return nil, wait
		}
	}
	if h.closed {
		return nil, probeLongest
	}
	w := &wire{hub: h, addr: to.addr, ps: to.connect(h.ctx), wake: make(chan struct{}, 1), ended: make(chan struct{})}
	h.wires[to.addr] = w
	h.work.Go(w.send)
	h.work.Go(w.receive)
	return w, 0
}

// handle hands a message to its listeners. They must not block.
func (h *hub) handle(w *wire, msg any) {
	switch m := msg.(type) {
	case *redis.Subscription:
		switch m.Kind {
		case "subscribe", "ssubscribe":
			h.tell(w, m.Channel, store.Hint{Established: true})
		case "sunsubscribe":
			h.moved(w, m.Channel)
		}
	case *redis.Message:
		if m.Channel == h.st.nodeChannel() {
			h.st.noticed(m)
		} else if hint, at, ok := parseHint(m.Payload); ok {
			h.st.opts.Observer.Hint(h.lag(at))
			h.tell(w, m.Channel, hint)
		}
	}
}

// moved places a channel anew whose slot has left its shard.
func (h *hub) moved(w *wire, channel string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[channel]; t != nil && t.wire == w {
		t.wire, t.ready = nil, false
		h.change(channel)
	}
}

// lag is the time since a hint was published.
func (h *hub) lag(at int64) time.Duration {
	if at == 0 {
		return -1
	}
	return max(0, time.Duration(h.st.Now()-at)*time.Millisecond)
}

func (h *hub) tell(w *wire, channel string, hint store.Hint) {
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil || t.wire != w {
		h.mu.Unlock()
		return
	}
	if hint.Established {
		t.ready = true
	}
	subs := make([]*subscription, 0, len(t.subs))
	for s := range t.subs {
		subs = append(subs, s)
	}
	h.mu.Unlock()
	for _, s := range subs {
		s.tell(hint)
	}
}

// unplace takes all channels from a connection that has ended, and lets its address
// rest if it was lost.
func (h *hub) unplace(w *wire, lost error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wires[w.addr] == w {
		delete(h.wires, w.addr)
	}
	for c, t := range h.topics {
		if t.wire == w {
			t.wire, t.ready = nil, false
			h.change(c)
		}
	}
	for c, from := range h.left {
		if from == w {
			delete(h.left, c)
		}
	}
	var reply redis.Error
	if w.addr != "" && errors.As(lost, &reply) && redis.HasErrorPrefix(reply, "unknown command") {
		h.sharded.Store(false) // a cluster before version 7
	}
	if lost == nil || h.closed {
		return
	}
	h.st.opts.Logger.Debug("a subscription connection was lost", zap.String("address", w.addr), zap.Error(lost))
	if len(h.rests) > maxServers { // nodes come and go
		clear(h.rests)
	}
	r := h.rests[w.addr]
	if r == nil {
		r = &rest{next: probeFirst}
		h.rests[w.addr] = r
	}
	r.until = time.Now().Add(jitter(r.next))
	r.next = min(2*r.next, probeLongest)
}

// heard ends the rests of an address.
func (h *hub) heard(w *wire) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rests, w.addr)
}

// anyChannel returns a channel of a connection's, empty if it has none.
func (h *hub) anyChannel(w *wire) string {
	if w.addr == "" {
		return h.st.nodeChannel()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, t := range h.topics {
		if t.wire == w {
			return c
		}
	}
	return ""
}

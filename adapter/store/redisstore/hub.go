package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times of the subscription connection.
const (
	probeInterval = 5 * time.Second // silence after which the connection is probed
	maxSilences   = 2               // probes without an echo before it is made anew
)

// hub is the node's one subscription connection. Channels are asked for by name
// and by one goroutine, which compares what is wanted with what was sent: so a
// channel left and wanted again at once ends up subscribed.
type hub struct {
	st       *Store
	interval time.Duration
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	wake     chan struct{}

	mu     sync.Mutex
	ps     *redis.PubSub
	topics map[string]*topic
	dirty  map[string]struct{} // channels whose subscription may have to change
}

// topic is a channel with listeners.
type topic struct {
	subs  map[*subscription]struct{}
	ready bool // the server has confirmed it
}

func newHub(st *Store) *hub {
	ctx, cancel := context.WithCancel(context.Background())
	h := &hub{
		st: st, interval: probeInterval, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1),
		topics: make(map[string]*topic), dirty: make(map[string]struct{}),
	}
	if st.opts.probeInterval > 0 {
		h.interval = st.opts.probeInterval
	}
	h.ps = h.connect()
	h.dirty[st.nodeChannel()] = struct{}{}
	h.wake <- struct{}{}
	h.work.Go(h.send)
	h.work.Go(h.receive)
	return h
}

// connect makes a connection without channels; it is used when there are some.
func (h *hub) connect() *redis.PubSub {
	l := h.st.use()
	defer l.release()
	return l.client.Subscribe(h.ctx)
}

func (h *hub) close() {
	h.cancel()
	h.hangUp()
	h.work.Wait()
	h.hangUp() // the connection may have been made anew meanwhile
}

func (h *hub) hangUp() {
	h.mu.Lock()
	ps := h.ps
	h.mu.Unlock()
	if err := ps.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		h.st.opts.Logger.Debug("close subscriptions", zap.Error(err))
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
	if len(t.subs) == 0 {
		delete(h.topics, s.channel)
		h.change(s.channel)
	}
}

// change wakes the sender. The caller holds mu.
func (h *hub) change(channel string) {
	h.dirty[channel] = struct{}{}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// wanted reports whether a channel is to be subscribed. The caller holds mu.
func (h *hub) wanted(channel string) bool {
	return h.topics[channel] != nil || channel == h.st.nodeChannel()
}

// send brings the server's subscriptions in line with what is wanted.
func (h *hub) send() {
	for {
		select {
		case <-h.wake:
		case <-h.ctx.Done():
			return
		}
		h.mu.Lock()
		ps := h.ps
		var on, off []string
		for c := range h.dirty {
			if h.wanted(c) {
				on = append(on, c)
			} else {
				off = append(off, c)
			}
		}
		clear(h.dirty)
		h.mu.Unlock()
		h.order(ps, on, off)
	}
}

// order sends SUBSCRIBE and UNSUBSCRIBE. What fails is made good when the
// connection is made anew: the client remembers the channels.
func (h *hub) order(ps *redis.PubSub, on, off []string) {
	ctx, cancel := context.WithTimeout(h.ctx, h.st.opts.Timeout)
	defer cancel()
	var errs []error
	if len(on) > 0 {
		errs = append(errs, ps.Subscribe(ctx, on...))
	}
	if len(off) > 0 {
		errs = append(errs, ps.Unsubscribe(ctx, off...))
	}
	if err := errors.Join(errs...); err != nil {
		h.st.opts.Logger.Debug("change subscriptions", zap.Error(err))
	}
}

// receive reads the connection. After two silences in a row, each broken by
// nothing although a probe was sent, the connection is made anew.
func (h *hub) receive() {
	wait, silences := probeFirst, 0
	for h.ctx.Err() == nil {
		h.mu.Lock()
		ps := h.ps
		h.mu.Unlock()
		msg, err := ps.ReceiveTimeout(h.ctx, h.interval)
		var network net.Error
		switch {
		case err == nil:
			wait, silences = probeFirst, 0
			h.handle(msg)
		case errors.As(err, &network) && network.Timeout() && !isDial(err):
			if silences++; silences > maxSilences {
				silences = 0
				h.st.opts.Logger.Warn("the subscription connection is silent and is made anew")
				h.renew()
				continue
			}
			h.probe()
		default:
			h.lost()
			select {
			case <-time.After(wait/2 + rand.N(wait)):
			case <-h.ctx.Done():
			}
			wait = min(2*wait, probeLongest)
		}
	}
}

// probe publishes to this node's own channel.
func (h *hub) probe() {
	if err := h.st.publish(h.ctx, h.st.nodeChannel(), "probe"); err != nil {
		h.st.opts.Logger.Debug("probe subscriptions", zap.Error(err))
	}
}

// renew makes the connection anew, with all channels.
func (h *hub) renew() {
	h.lost()
	h.mu.Lock()
	old := h.ps
	h.ps = h.connect()
	for c := range h.topics {
		h.dirty[c] = struct{}{}
	}
	h.change(h.st.nodeChannel())
	h.mu.Unlock()
	if err := old.Close(); err != nil {
		h.st.opts.Logger.Debug("close subscriptions", zap.Error(err))
	}
}

// lost notes that no channel is established at the moment.
func (h *hub) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.topics {
		t.ready = false
	}
}

// handle hands a message to its listeners. They must not block.
func (h *hub) handle(msg any) {
	switch m := msg.(type) {
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			h.tell(m.Channel, store.Hint{Established: true})
		}
	case *redis.Message:
		if m.Channel == h.st.nodeChannel() {
			h.st.noticed(m)
		} else if hint, at, ok := parseHint(m.Payload); ok {
			h.st.opts.Observer.Hint(h.lag(at))
			h.tell(m.Channel, hint)
		}
	}
}

// lag is the time since a hint was published.
func (h *hub) lag(at int64) time.Duration {
	if at == 0 {
		return -1
	}
	return max(0, time.Duration(h.st.Now()-at)*time.Millisecond)
}

func (h *hub) tell(channel string, hint store.Hint) {
	h.mu.Lock()
	t := h.topics[channel]
	if t == nil {
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

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
)

var errSilent = errors.New("nothing arrives, not even a probe")

// wire is one subscription connection. With the first error it ends, and the hub
// places its channels anew.
type wire struct {
	hub   *hub
	addr  string // "": any server, for channels that every server has
	ps    *redis.PubSub
	wake  chan struct{}
	ended chan struct{}
	once  sync.Once
	known bool // something has arrived; receive's own

	on, off []string // to be asked for, and to be left; guarded by hub.mu
}

// ask has a channel asked for or left. The caller holds the hub's mu.
func (w *wire) ask(on *string, off string) {
	if w == nil {
		return
	}
	if on != nil {
		w.on = append(w.on, *on)
	}
	if off != "" {
		w.off = append(w.off, off)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// end ends the connection; with an error it was lost.
func (w *wire) end(lost error) {
	w.once.Do(func() {
		close(w.ended)
		w.hub.unplace(w, lost)
		if err := w.ps.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			w.hub.st.opts.Logger.Debug("close subscriptions", zap.Error(err))
		}
	})
}

// send sends what the hub asks for.
func (w *wire) send() {
	for {
		select {
		case <-w.wake:
		case <-w.ended:
			return
		}
		w.hub.mu.Lock()
		on, off := w.on, w.off
		w.on, w.off = nil, nil
		w.hub.mu.Unlock()
		if err := w.order(on, off); err != nil {
			w.end(err)
			return
		}
	}
}

// order leaves channels and asks for others. In shards each is asked for by
// itself: those of one command would have to be of one slot.
func (w *wire) order(on, off []string) error {
	ctx, cancel := context.WithTimeout(w.hub.ctx, w.hub.st.opts.Timeout)
	defer cancel()
	if w.addr == "" {
		var errs []error
		if len(off) > 0 {
			errs = append(errs, w.ps.Unsubscribe(ctx, off...))
		}
		if len(on) > 0 {
			errs = append(errs, w.ps.Subscribe(ctx, on...))
		}
		return errors.Join(errs...)
	}
	for _, c := range off {
		if err := w.ps.SUnsubscribe(ctx, c); err != nil {
			return err
		}
	}
	for _, c := range on {
		if err := w.ps.SSubscribe(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// receive reads the connection. It is given up after silences in a row that no
// probe has broken.
func (w *wire) receive() {
	silences := 0
	for {
		msg, err := w.ps.ReceiveTimeout(w.hub.ctx, w.hub.interval)
		var network net.Error
		switch {
		case err == nil:
			silences = 0
			if !w.known {
				w.known = true
				w.hub.heard(w)
			}
			w.hub.handle(w, msg)
		case errors.As(err, &network) && network.Timeout() && !isDial(err):
			if silences++; silences > maxSilences {
				w.hub.st.opts.Logger.Warn("a subscription connection is silent and is made anew", zap.String("address", w.addr))
				w.end(errSilent)
				return
			}
			w.probe()
		default:
			w.end(err)
			return
		}
	}
}

// probe publishes to a channel of this connection's. One without channels is not
// needed any more.
func (w *wire) probe() {
	channel := w.hub.anyChannel(w)
	if channel == "" {
		w.end(nil)
		return
	}
	if err := w.hub.st.publish(w.hub.ctx, channel, "probe", w.addr != ""); err != nil {
		w.hub.st.opts.Logger.Debug("probe subscriptions", zap.Error(err))
	}
}

// jitter spreads what many nodes do after the same time.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

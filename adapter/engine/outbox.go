package engine

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Times and bounds of batches that the store does not acknowledge (contract 5.3.5,
// 9.2, 9.3).
const (
	handOverAfter = 300 * time.Millisecond
	resendFirst   = 50 * time.Millisecond
	resendMost    = 300 * time.Millisecond
	aheadFor      = time.Minute // how long of an outage members are shown what is not logged
	outboxOfRun   = 4 << 20
	outboxOfNode  = 64 << 20
	outboxSlack   = 1 << 20 // for what an executor still says while it is being stopped
	entryOverhead = 256     // bytes of an entry besides its payload
)

var errOutage = errors.New("the store was away for too long")

// outbox holds the batches of a run that the store has not acknowledged, built and
// in order. While there is one, a sender goroutine owns the way to the store and the
// executor's goroutine only adds. It is guarded by the writer's turn.
type outbox struct {
	batches    []*store.Batch
	bytes      int
	since      time.Time          // when the first of them was issued
	empty      chan struct{}      // closed when all are acknowledged or the run is lost
	generation uint64             // of the store, when the stamps were made
	lost       *store.OwnerResult // set: the store has lost the run, it has to be reinstated first
}

// appendBriefly sends a batch to a store that may be away, again and again for the
// time that an executor can be kept waiting.
func (w *writer) appendBriefly(b *store.Batch) (store.OwnerResult, error) {
	e := w.r.e
	ctx, cancel := context.WithTimeout(e.ctx, handOverAfter)
	defer cancel()
	for {
		generation := e.generation()
		res, err := e.cfg.Store.Append(ctx, *b)
		if err == nil || errors.Is(err, store.ErrTooNew) || pause(ctx, resendFirst) != nil {
			return res, err
		}
		if generation != e.generation() {
			b.Stamp = newStamp() // see restamp
		}
	}
}

// handOver leaves a batch that was issued and not acknowledged to a sender. The
// caller holds the turn.
func (w *writer) handOver(b *store.Batch, issued time.Time) {
	w.openOutbox(issued)
	w.putOff(b)
}

func (w *writer) openOutbox(since time.Time) {
	w.outbox = &outbox{since: since, generation: w.r.e.generation(), empty: make(chan struct{})}
	w.senders.Go(w.send)
}

// putOff puts a batch behind those that wait. What does not fit stops the upstream;
// what it says even so is dropped in the end. The caller holds the turn.
func (w *writer) putOff(b *store.Batch) {
	box, e := w.outbox, w.r.e
	size := batchSize(b)
	total := e.outboxBytes.Load() + int64(size)
	if box.bytes+size > outboxOfRun || total > outboxOfNode {
		w.r.cancel(errOutage)
	}
	if box.bytes+size > outboxOfRun+outboxSlack || total > outboxOfNode+outboxSlack {
		b.Events, b.Rows = nil, nil
		size = entryOverhead
	}
	own := *b
	w.batch = store.Batch{} // its slices belong to the outbox now
	w.built = own.Seq
	box.batches = append(box.batches, &own)
	w.countOutbox(size)
	show := time.Since(box.since) < aheadFor
	s := w.r.s
	s.box.do(func() { s.ahead.add(s, &own, show) })
}

func (w *writer) countOutbox(delta int) {
	w.outbox.bytes += delta
	w.r.e.outboxBytes.Add(int64(delta))
	w.r.e.cfg.Metrics.Outbox(delta)
}

func batchSize(b *store.Batch) int {
	size := entryOverhead
	for i := range b.Events {
		size += len(b.Events[i].Payload) + entryOverhead
	}
	for i := range b.Rows {
		size += len(b.Rows[i].Data) + entryOverhead
	}
	return size
}

// send brings the outbox to the store, one batch after the other, each with the same
// bytes until it is answered.
func (w *writer) send() {
	delay := resendFirst
	for {
		w.lock()
		b, more := w.head()
		lost, wait := more && w.outbox.lost != nil, more && w.mustWait()
		if more && !lost && !wait {
			w.restamp()
		}
		w.unlock()
		switch {
		case !more:
			return
		case wait:
			w.rest(askAgain)
			continue
		case lost:
			w.reinstate()
			continue
		}
		asked := w.r.e.ask()
		res, err := w.r.e.cfg.Store.Append(w.r.e.ctx, *b)
		if err == nil {
			delay = resendFirst
			w.answered(b, &res, asked)
			continue
		}
		if errors.Is(err, store.ErrTooNew) {
			w.lock()
			w.giveUp(errLost)
			w.unlock()
		}
		w.rest(delay)
		delay = min(2*delay, resendMost)
	}
}

// rest pauses the sender. When the engine closes, the run is given up.
func (w *writer) rest(d time.Duration) {
	if pause(w.r.e.ctx, d) == nil {
		return
	}
	w.lock()
	defer w.unlock()
	w.giveUp(errLost)
}

// restamp gives a batch that another server process may have taken a stamp of its
// own: else it could come to stand where it stood in a log that was lost, and a
// reader would not notice that what is before it differs (H26). The caller holds the
// turn.
func (w *writer) restamp() {
	g := w.r.e.generation()
	if g == w.outbox.generation {
		return
	}
	w.outbox.generation = g
	s := w.r.s
	for _, b := range w.outbox.batches {
		from := b.Stamp
		b.Stamp = newStamp()
		s.box.do(func() { s.ahead.rename(from, b.Stamp) })
	}
}

// mustWait reports whether the owner keeps quiet because the store may have lost who
// the owner is: a run that was not sent yet has nothing to lose by it, and another
// node may have sent it. The caller holds the turn.
func (w *writer) mustWait() bool { return !w.origin.sent && w.r.e.settling() }

// head answers the batch to be sent next; without one it closes the outbox. The
// caller holds the turn.
func (w *writer) head() (*store.Batch, bool) {
	box := w.outbox
	if !w.gone && (len(box.batches) > 0 || box.lost != nil) {
		if len(box.batches) == 0 {
			return nil, true
		}
		return box.batches[0], true
	}
	w.countOutbox(-box.bytes)
	w.outbox = nil
	close(box.empty)
	return nil, false
}

// answered acts on the store's word about the first batch of the outbox.
func (w *writer) answered(b *store.Batch, res *store.OwnerResult, asked asking) {
	w.lock()
	defer w.unlock()
	if !acknowledged(res.Code) {
		w.refused(*res)
		return
	}
	w.drop(1)
	w.accept(b, res, asked)
	w.heedAbort(*res)
}

// drop removes the first n batches of the outbox.
func (w *writer) drop(n int) {
	box := w.outbox
	for _, b := range box.batches[:n] {
		w.countOutbox(-min(batchSize(b), box.bytes))
	}
	clear(box.batches[:n])
	box.batches = box.batches[n:]
}

// drained waits until the store has acknowledged everything, and answers why that
// will not be.
func (w *writer) drained(ctx context.Context) error {
	for {
		w.lock()
		box, gone := w.outbox, w.gone
		w.unlock()
		switch {
		case gone:
			return errLost
		case box == nil:
			return nil
		}
		select {
		case <-box.empty:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refused acts on a store that does not take the run for ours. What it has lost is
// brought back; else the run is given up. The caller holds the turn.
func (w *writer) refused(res store.OwnerResult) {
	if w.gone {
		return
	}
	if w.r.e.lostByStore(res, w.generation) {
		if w.outbox == nil {
			w.openOutbox(time.Now())
		}
		w.outbox.lost = &res
		return
	}
	w.r.s.logger().Warn("run lost", zap.String("answer", string(res.Code)))
	w.r.e.cfg.Metrics.FenceLost()
	w.giveUp(errLost)
}

// giveUp ends the run on this node without an ending: it is not ours any more. The
// caller holds the turn.
func (w *writer) giveUp(cause error) {
	if w.gone {
		return
	}
	w.gone = true
	w.r.cancel(cause)
	s := w.r.s
	s.box.do(func() { s.ahead.abandon(s) })
}

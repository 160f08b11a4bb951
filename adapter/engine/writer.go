package engine

import (
	"errors"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of a batch and of what is not covered by a checkpoint (contract section 3
// and 5.3).
const (
	batchEvents     = 32
	batchBytes      = 64 << 10
	checkpointAfter = 256
	checkpointBytes = 128 << 10
	checkpointEvery = 5 * time.Second
	keepEvery       = time.Second
)

type pendingKind int

const (
	pendingText pendingKind = iota
	pendingReasoning
	pendingEvent
	pendingRows
)

// pending is something the executor has reported that is not logged yet.
type pending struct {
	kind   pendingKind
	text   string
	merged []byte // text and what came behind it, if anything did
	event  store.NewEntry
	rows   []store.NewRow
	seal   bool // the open text becomes a row in front of rows
}

// delta answers the text of all merged deltas.
func (p *pending) delta() string {
	if p.merged == nil {
		return p.text
	}
	return string(p.merged)
}

// writer logs what a run reports. Reports wait until the executor has nothing more
// at hand, adjacent text deltas merging meanwhile; then they are built, logged and
// delivered by the executor's own goroutine. So at most one batch of a session is
// in flight, and an upstream that is faster than the store is read more slowly. What
// a store that is away does not acknowledge goes through an outbox. A keeper
// goroutine covers text by checkpoints and renews the lease meanwhile.
type writer struct {
	r *runner

	// Of the executor's goroutine.
	waiting []pending
	bytes   int
	patch   store.Patch

	// Of whoever holds the turn.
	turn       chan struct{} // capacity 1
	batch      store.Batch
	built      int64     // sequence of the last batch that was logged or put off
	origin     origin    // how the run stands in the store
	written    time.Time // when the last acknowledged call was issued
	generation uint64    // of the store, when it acknowledged that call
	fenced     bool      // the members know that the tenure is in doubt
	gone       bool      // the run is not ours any more
	outbox     *outbox   // nil: batches go to the store directly
	repairs    int       // how often the run was reinstated
	uncovered  int       // events behind the last checkpoint, and their bytes
	size       int
	coveredAt  time.Time

	poke    chan struct{} // capacity 1: the keeper shall renew now
	stop    chan struct{}
	done    chan struct{}
	senders sync.WaitGroup
}

func newWriter(r *runner) *writer {
	now := time.Now()
	w := &writer{
		r: r, turn: make(chan struct{}, 1), written: now, coveredAt: now, generation: r.e.generation(), built: r.seq, origin: r.origin,
		poke: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go w.keep()
	return w
}

func (w *writer) lock()   { w.turn <- struct{}{} }
func (w *writer) unlock() { <-w.turn }

// close writes what waits and ends the keeper. It returns once the store has
// acknowledged everything, however long it is away, or the run is lost or the engine
// closes.
func (w *writer) close() {
	w.flush()
	_ = w.drained(w.r.e.ctx)
	close(w.stop)
	<-w.done
	w.senders.Wait()
}

// addText takes a delta of text or reasoning, merged into the last one if that is
// of the same kind.
func (w *writer) addText(kind pendingKind, delta string) {
	if n := len(w.waiting); n > 0 && w.waiting[n-1].kind == kind {
		last := &w.waiting[n-1]
		if last.merged == nil {
			last.merged = append(make([]byte, 0, 2*(len(last.text)+len(delta))), last.text...)
		}
		last.merged = append(last.merged, delta...)
	} else {
		w.waiting = append(w.waiting, pending{kind: kind, text: delta})
	}
	w.grow(len(delta))
}

// add takes an event or rows.
func (w *writer) add(p pending) {
	w.waiting = append(w.waiting, p)
	size := len(p.event.Payload)
	for _, r := range p.rows {
		size += len(r.Data)
	}
	w.grow(size)
}

// grow writes early what has become a whole batch.
func (w *writer) grow(bytes int) {
	if w.bytes += bytes; w.bytes >= batchBytes || len(w.waiting) >= batchEvents {
		w.flush()
	}
}

// flush logs and delivers what waits.
func (w *writer) flush() {
	if len(w.waiting) == 0 {
		return
	}
	_ = w.flushWith(store.Patch{}) // a lost run ends by its context
}

// flushWith logs what waits together with a change of the run record.
func (w *writer) flushWith(p store.Patch) error {
	w.lock()
	defer w.unlock()
	mergePatch(&w.patch, p)
	batch := w.waiting
	err := w.write(batch, w.patch)
	clear(batch)
	w.waiting, w.bytes, w.patch = batch[:0], 0, store.Patch{}
	return err
}

// keep covers text by a checkpoint also while the upstream is silent, renews the
// lease, and notices when it is in doubt.
func (w *writer) keep() {
	defer close(w.done)
	if w.r.e.lossy() {
		// The Submit has armed for later; a node that dies now is to be missed in time.
		_ = w.r.e.cfg.Store.Arm(w.r.e.ctx, w.r.s.sid, store.LeaseTTL)
	}
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		now := false
		select {
		case <-tick.C:
		case <-w.poke:
			now = true
		case <-w.stop:
			return
		}
		select {
		case w.turn <- struct{}{}:
			due := w.maintain(now)
			w.unlock()
			if due {
				_ = w.renew() // the next tick tries again
			}
			w.r.prolongSlot()
		case <-w.stop:
			return
		}
	}
}

// maintain does what is due by the clock, or at once. It reports whether the lease is
// to be renewed. The caller holds the turn.
func (w *writer) maintain(now bool) (renew bool) {
	if w.gone {
		return false
	}
	if w.outbox == nil && w.checkpointDue() {
		_ = w.write(nil, store.Patch{})
	}
	at := age(w.written)
	if at >= fenceAfter && w.r.e.lossy() {
		w.tellReconnecting()
	}
	due := now || at >= freshFor || w.generation != w.r.e.generation()
	return due && !w.gone && w.outbox == nil && !w.mustWait()
}

// renewNow has the keeper ask the store at once whether the run is still ours.
func (w *writer) renewNow() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// write builds one batch, logs and delivers it, or leaves it to the outbox. The
// caller holds the turn. An error means that nothing of the batch was logged, or that
// the run is lost.
func (w *writer) write(batch []pending, p store.Patch) error {
	if w.gone {
		return errLost
	}
	b := w.build(batch, p)
	if w.outbox != nil {
		w.putOff(b)
		return nil
	}
	s := w.r.s
	asked := w.r.e.ask()
	s.appending.Store(true)
	res, err := w.append(b)
	if err == nil && acknowledged(res.Code) {
		w.accept(b, &res, asked)
	}
	s.appending.Store(false)
	if s.hinted.Load() > s.delivered.Load() {
		s.wake()
	}
	return w.heed(b, res, err, asked)
}

// accept takes over what the store has acknowledged and delivers it.
func (w *writer) accept(b *store.Batch, res *store.OwnerResult, asked asking) {
	s := w.r.s
	w.r.seq, w.built = b.Seq, max(w.built, b.Seq)
	if b.Patch.Phase != "" {
		w.origin.sent = b.Patch.Phase != store.PhaseStarting
	}
	if b.Patch.WireID != "" {
		w.origin.wireID = b.Patch.WireID
	}
	w.confirmed(asked)
	s.box.do(func() {
		s.ahead.acked = res.Last.Offset
		s.deliverBatch(b.Events, b, res)
	})
}

func acknowledged(c store.Code) bool { return c == store.OK || c == store.Dup }

// append sends the same bytes until the store answers. A store that can be away is
// waited for shortly; of one that cannot, what is certainly not executed for long is
// given up, the sequence number stays free.
func (w *writer) append(b *store.Batch) (store.OwnerResult, error) {
	e := w.r.e
	if e.lossy() {
		return w.appendBriefly(b)
	}
	deadline := time.Now().Add(finishTimeout)
	for delay := resendFirst; ; delay = min(2*delay, resendMost) {
		res, err := e.cfg.Store.Append(e.ctx, *b)
		switch {
		case err == nil:
			return res, nil
		case errors.Is(err, store.ErrUnavailable) && time.Now().After(deadline):
			return res, err
		case pause(e.ctx, delay) != nil:
			return res, errLost
		}
	}
}

// heed acts on the store's answer to a batch.
func (w *writer) heed(b *store.Batch, res store.OwnerResult, err error, asked asking) error {
	switch {
	case err == nil && acknowledged(res.Code):
		w.heedAbort(res)
	case err == nil:
		if w.refused(res); w.gone {
			return errLost
		}
		w.putOff(b)
	case w.r.e.lossy() && w.r.e.ctx.Err() == nil && !errors.Is(err, store.ErrTooNew):
		w.handOver(b, asked.at)
	default:
		w.giveUp(err)
		return err
	}
	return nil
}

// heedAbort acts on a stop that the store's answer speaks of.
func (w *writer) heedAbort(res store.OwnerResult) {
	if res.Abort {
		w.r.abort(w.r.item.Run)
	}
}

// build turns what waits into entries and rows. From here on nothing is merged,
// split or encoded again.
func (w *writer) build(batch []pending, patch store.Patch) *store.Batch {
	r := w.r
	b := &w.batch
	*b = store.Batch{
		SID: r.s.sid, Token: r.token, Run: r.item.Run, Seq: w.built + 1, Stamp: newStamp(), TTL: store.LeaseTTL,
		Patch: patch, Events: b.Events[:0],
	}
	for i := range batch {
		p := &batch[i]
		switch p.kind {
		case pendingText:
			text := p.delta()
			r.view.AddText(text)
			w.addEvent(b, store.KindEvent, chatrun.EventMessageDelta, chatrun.MessageDelta(b.SID, r.wireID, text))
		case pendingReasoning:
			text := p.delta()
			r.view.AddReasoning(text)
			w.addEvent(b, store.KindEvent, chatrun.EventReasoningDelta, chatrun.ReasoningDelta(b.SID, r.wireID, text))
		case pendingRows:
			w.addRows(b, p)
		case pendingEvent:
			w.addRows(b, p)
			r.view.AddEvent(p.event.Name, p.event.Payload)
			w.addEvent(b, p.event.Kind, p.event.Name, p.event.Payload)
		}
	}
	if w.outbox == nil && w.checkpointDue() {
		b.Checkpoint = r.view.Encode()
		w.uncovered, w.size, w.coveredAt = 0, 0, time.Now()
	}
	r.remember(b.Rows, patch)
	return b
}

func (w *writer) addRows(b *store.Batch, p *pending) {
	if p.seal {
		b.Rows = append(b.Rows, w.r.sealText(finishToolCalls)...)
	}
	b.Rows = append(b.Rows, p.rows...)
}

func (w *writer) addEvent(b *store.Batch, kind store.Kind, name string, payload []byte) {
	b.Events = append(b.Events, store.NewEntry{Kind: kind, Name: name, Payload: payload})
	w.uncovered++
	w.size += len(payload)
}

func (w *writer) checkpointDue() bool {
	return w.uncovered >= checkpointAfter || w.size >= checkpointBytes ||
		w.uncovered > 0 && time.Since(w.coveredAt) >= checkpointEvery
}

func mergePatch(to *store.Patch, p store.Patch) {
	if p.Phase != "" {
		to.Phase = p.Phase
	}
	if p.WireID != "" {
		to.WireID = p.WireID
	}
	if p.Upstream != nil {
		to.Upstream = p.Upstream
	}
}

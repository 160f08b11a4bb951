package engine

import (
	"errors"
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
// in flight, and an upstream that is faster than the store is read more slowly. A
// keeper goroutine covers text by checkpoints and renews the lease meanwhile.
type writer struct {
	r *runner

	// Of the executor's goroutine.
	waiting []pending
	bytes   int
	patch   store.Patch

	// Of whoever holds the turn.
	turn      chan struct{} // capacity 1
	batch     store.Batch
	written   time.Time // last word of the store
	gone      bool      // the run is not ours any more
	uncovered int       // events behind the last checkpoint, and their bytes
	size      int
	coveredAt time.Time

	stop chan struct{}
	done chan struct{}
}

func newWriter(r *runner) *writer {
	now := time.Now()
	w := &writer{r: r, turn: make(chan struct{}, 1), written: now, coveredAt: now, stop: make(chan struct{}), done: make(chan struct{})}
	go w.keep()
	return w
}

// close writes what waits and ends the keeper.
func (w *writer) close() {
	w.flush()
	close(w.stop)
	<-w.done
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
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	mergePatch(&w.patch, p)
	batch := w.waiting
	err := w.write(batch, w.patch)
	clear(batch)
	w.waiting, w.bytes, w.patch = batch[:0], 0, store.Patch{}
	return err
}

// keep covers text by a checkpoint also while the upstream is silent, and renews
// the lease.
func (w *writer) keep() {
	defer close(w.done)
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
		select {
		case w.turn <- struct{}{}:
			w.maintain()
			<-w.turn
		case <-w.stop:
			return
		}
	}
}

func (w *writer) maintain() {
	switch {
	case w.gone:
	case w.checkpointDue():
		_ = w.write(nil, store.Patch{})
	case time.Since(w.written) >= store.LeaseTTL/3:
		w.renew()
	}
}

// write builds one batch, logs and delivers it. The caller holds the turn. An
// error means that nothing of the batch was logged, or that the run is lost.
func (w *writer) write(batch []pending, p store.Patch) error {
	if w.gone {
		return errLost
	}
	b := w.build(batch, p)
	s := w.r.s
	issued := time.Now()
	s.appending.Store(true)
	res, err := w.append(b)
	if err == nil && (res.Code == store.OK || res.Code == store.Dup) {
		w.r.seq, w.written = b.Seq, issued
		s.box.do(func() { s.deliverBatch(b.Events, b, &res) })
	}
	s.appending.Store(false)
	if s.hinted.Load() > s.delivered.Load() {
		s.wake()
	}
	if err := w.heed(res, err); err != nil {
		return err
	}
	if time.Since(issued) > store.LeaseTTL/3 {
		return w.renew()
	}
	return nil
}

// append sends the same bytes until the store answers; what is certainly not
// executed for long is given up, the sequence number stays free.
func (w *writer) append(b *store.Batch) (store.OwnerResult, error) {
	e := w.r.e
	deadline := time.Now().Add(finishTimeout)
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 300*time.Millisecond) {
		res, err := e.cfg.Store.Append(e.ctx, *b)
		switch {
		case err == nil:
			return res, nil
		case e.ctx.Err() != nil:
			return res, errLost
		case errors.Is(err, store.ErrUnavailable) && time.Now().After(deadline):
			return res, err
		}
		select {
		case <-time.After(delay):
		case <-e.ctx.Done():
		}
	}
}

// renew keeps the lease while nothing is written. Trouble of the store is not
// heeded here: the next write meets it.
func (w *writer) renew() error {
	r := w.r
	if err := r.e.cfg.Store.Arm(r.e.ctx, r.s.sid, store.LeaseTTL); err != nil {
		return nil
	}
	issued := time.Now()
	res, err := r.e.cfg.Store.Renew(r.e.ctx, r.s.sid, r.token, r.item.Run, r.seq, store.LeaseTTL)
	if err != nil {
		return nil
	}
	w.written = issued
	return w.heed(res, nil)
}

// heed acts on what the store says to an owner.
func (w *writer) heed(res store.OwnerResult, err error) error {
	if err == nil && (res.Code == store.OK || res.Code == store.Dup) {
		if res.Abort {
			w.r.abort(w.r.item.Run)
		}
		return nil
	}
	if err == nil {
		w.r.lost(res.Code)
		err = errLost
	}
	w.gone = true
	w.r.cancel(err)
	return err
}

// build turns what waits into entries and rows. From here on nothing is merged,
// split or encoded again.
func (w *writer) build(batch []pending, patch store.Patch) *store.Batch {
	r := w.r
	b := &w.batch
	*b = store.Batch{
		SID: r.s.sid, Token: r.token, Run: r.item.Run, Seq: r.seq + 1, Stamp: newStamp(), TTL: store.LeaseTTL,
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
	if w.checkpointDue() {
		b.Checkpoint = r.view.Encode()
		w.uncovered, w.size, w.coveredAt = 0, 0, time.Now()
	}
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

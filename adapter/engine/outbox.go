package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of the outbox (contract 5.3 and section 10).
const (
	outboxBytes     = 4 << 20
	batchEvents     = 32
	batchBytes      = 64 << 10
	mergeBytes      = 16 << 10
	checkpointAfter = 256
	checkpointBytes = 128 << 10
	checkpointEvery = time.Second // what a killed process may lose of a text (contract section 7)
)

type pendingKind int

const (
	pendingText pendingKind = iota
	pendingReasoning
	pendingEvent
	pendingRows
	pendingPatch
)

// pending is something the executor has reported that is not logged yet.
type pending struct {
	kind  pendingKind
	text  []byte // text and reasoning: adjacent deltas grow it while it waits
	event store.NewEntry
	rows  []store.NewRow
	seal  bool // the open text becomes a row in front of rows
	patch store.Patch
	done  chan error // patches: told when the store has acknowledged
}

func (p *pending) size() int {
	n := len(p.text) + len(p.event.Payload) + 64
	for _, r := range p.rows {
		n += len(r.Data)
	}
	return n
}

// outbox is what a run has to log: the executor adds, one appender goroutine
// takes batches and has at most one in flight. Adjacent text deltas are merged
// while they wait and never after an event has been built (contract rule 2).
type outbox struct {
	mu     sync.Mutex
	room   sync.Cond // the executor waits here while the outbox is full
	queue  []pending
	bytes  int
	closed bool
	wake   chan struct{} // capacity 1
	idle   chan struct{} // closed when the appender has ended
}

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1), idle: make(chan struct{})}
	o.room.L = &o.mu
	return o
}

// add queues p. It waits while the outbox is full, and drops p once it is closed.
func (o *outbox) add(p pending) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.bytes >= outboxBytes && !o.closed {
		o.room.Wait()
	}
	if o.closed {
		return false
	}
	o.queue = append(o.queue, p)
	o.bytes += p.size()
	o.signal()
	return true
}

// addText queues a delta of text or reasoning, merged into the last one if that is
// of the same kind and still waits.
func (o *outbox) addText(kind pendingKind, delta string) {
	o.mu.Lock()
	if n := len(o.queue); n > 0 && !o.closed && o.bytes < outboxBytes {
		last := &o.queue[n-1]
		if last.kind == kind && len(last.text)+len(delta) <= mergeBytes {
			last.text = append(last.text, delta...)
			o.bytes += len(delta)
			o.mu.Unlock()
			return
		}
	}
	o.mu.Unlock()
	o.add(pending{kind: kind, text: []byte(delta)})
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take removes the next batch: at most batchEvents, about batchBytes.
func (o *outbox) take() (batch []pending, more, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, bytes := 0, 0
	for n < len(o.queue) && n < batchEvents && (n == 0 || bytes < batchBytes) {
		bytes += o.queue[n].size()
		n++
	}
	if n == len(o.queue) {
		batch, o.queue = o.queue, nil
	} else {
		batch = o.queue[:n:n]
		o.queue = o.queue[n:]
	}
	o.bytes -= bytes
	o.room.Broadcast()
	return batch, len(o.queue) > 0, o.closed
}

// close lets the appender write what waits and end; nothing is taken any more.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.room.Broadcast()
	o.mu.Unlock()
	o.signal()
}

// drop closes the outbox and forgets what waits: the run belongs to somebody else.
func (o *outbox) drop(cause error) {
	o.mu.Lock()
	queue := o.queue
	o.queue, o.bytes, o.closed = nil, 0, true
	o.room.Broadcast()
	o.mu.Unlock()
	o.signal()
	for i := range queue {
		if queue[i].done != nil {
			queue[i].done <- cause
		}
	}
}

// appender writes the outbox of a run until it is closed and empty, or the run is
// lost. While nothing is to be written it still covers what was by a checkpoint,
// and renews the lease.
func (r *runner) appender() {
	defer close(r.out.idle)
	written := time.Now()
	rest := time.NewTimer(checkpointEvery)
	defer rest.Stop()
	for {
		batch, more, closed := r.out.take()
		if len(batch) > 0 || r.checkpointDue() {
			if !r.write(batch) {
				return
			}
			written = time.Now()
		}
		switch {
		case more:
			continue
		case closed:
			return
		}
		rest.Reset(checkpointEvery)
		select {
		case <-r.out.wake:
		case <-rest.C:
			if time.Since(written) < store.LeaseTTL/3 {
				continue
			}
			if !r.renew() {
				return
			}
			written = time.Now()
		}
	}
}

// write logs one batch and delivers it. It answers false when the run is lost.
func (r *runner) write(batch []pending) bool {
	b := r.build(batch)
	issued := time.Now()
	r.s.appending.Store(true)
	res, err := r.append(b)
	if err == nil && (res.Code == store.OK || res.Code == store.Dup) {
		r.seq = b.Seq
		r.s.box.do(func() { r.s.deliverBatch(b.Events, b, &res) })
	}
	r.s.appending.Store(false)
	if r.s.hinted.Load() > r.s.delivered.Load() {
		r.s.wake()
	}
	ok := r.heed(res, err)
	if ok && err == nil && time.Since(issued) > store.LeaseTTL/3 {
		ok = r.renew()
	}
	for i := range batch {
		if batch[i].done != nil {
			batch[i].done <- errOf(ok, err)
		}
	}
	return ok
}

func errOf(ok bool, err error) error {
	if err == nil && !ok {
		return errLost
	}
	return err
}

// append sends the same bytes until the store answers; what is certainly not
// executed for long is given up, the sequence number stays free.
func (r *runner) append(b *store.Batch) (store.OwnerResult, error) {
	deadline := time.Now().Add(finishTimeout)
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 300*time.Millisecond) {
		ctx, cancel := context.WithTimeout(r.e.ctx, callTimeout)
		res, err := r.e.cfg.Store.Append(ctx, *b)
		cancel()
		switch {
		case err == nil:
			return res, nil
		case r.e.ctx.Err() != nil:
			return res, errLost
		case errors.Is(err, store.ErrUnavailable) && time.Now().After(deadline):
			return res, err
		}
		select {
		case <-time.After(delay):
		case <-r.e.ctx.Done():
		}
	}
}

// build turns what waits into entries and rows. From here on nothing is merged,
// split or encoded again.
func (r *runner) build(batch []pending) *store.Batch {
	b := &store.Batch{
		SID: r.s.sid, Token: r.token, Run: r.item.Run, Seq: r.seq + 1, Stamp: newStamp(), TTL: store.LeaseTTL,
		Events: make([]store.NewEntry, 0, len(batch)),
	}
	for i := range batch {
		p := &batch[i]
		switch p.kind {
		case pendingText:
			text := string(p.text)
			r.view.AddText(text)
			r.addEvent(b, store.KindEvent, chatrun.EventMessageDelta, chatrun.MessageDelta(b.SID, r.wireID, text))
		case pendingReasoning:
			text := string(p.text)
			r.view.AddReasoning(text)
			r.addEvent(b, store.KindEvent, chatrun.EventReasoningDelta, chatrun.ReasoningDelta(b.SID, r.wireID, text))
		case pendingRows:
			r.addRows(b, p)
		case pendingEvent:
			r.addRows(b, p)
			r.view.AddEvent(p.event.Name, p.event.Payload)
			r.addEvent(b, p.event.Kind, p.event.Name, p.event.Payload)
			mergePatch(&b.Patch, p.patch)
		case pendingPatch:
			mergePatch(&b.Patch, p.patch)
		}
	}
	r.checkpoint(b)
	return b
}

func (r *runner) addRows(b *store.Batch, p *pending) {
	if p.seal {
		b.Rows = append(b.Rows, r.sealText(finishToolCalls)...)
	}
	b.Rows = append(b.Rows, p.rows...)
}

func (r *runner) addEvent(b *store.Batch, kind store.Kind, name string, payload []byte) {
	b.Events = append(b.Events, store.NewEntry{Kind: kind, Name: name, Payload: payload})
	r.uncovered++
	r.uncoveredBytes += len(payload)
}

// checkpoint adds a fold of the run when the log behind the last one has grown.
func (r *runner) checkpoint(b *store.Batch) {
	if !r.checkpointDue() {
		return
	}
	b.Checkpoint = r.view.Encode()
	r.uncovered, r.uncoveredBytes, r.coveredAt = 0, 0, time.Now()
}

func (r *runner) checkpointDue() bool {
	return r.uncovered >= checkpointAfter || r.uncoveredBytes >= checkpointBytes ||
		r.uncovered > 0 && time.Since(r.coveredAt) >= checkpointEvery
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

package memory

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// level says how durable a change has to be before its caller hears of it.
type level int

const (
	unchanged level = iota
	volatile        // memory only
	soon            // with the next background transaction
	durable         // before the call returns
)

// change is everything that one operation does to one session. An operation
// fills it while the session itself stays as it is; a change left at unchanged
// is a refusal. Each session has one, reused by every turn.
type change struct {
	st    *Store
	s     *session // the state before
	next  state    // the state after
	level level
	now   int64

	stamp   string
	log     []store.Entry
	rows    []store.Row
	queue   []queued
	edits   []ledgerEdit
	active  *store.Item
	trim    int64 // entries up to this offset go
	fold    []byte
	folded  bool // fold replaces the checkpoint
	wipe    bool // all rows so far go
	reset   bool // the log so far goes
	drop    bool // the session goes as a whole
	logOnly bool // nothing but the log has changed that has to be stored
	patient bool // a commit that fails is tried again for a while
	degrade func(ch *change)
	caller  *atomic.Int32 // nil: it does not matter whether the caller is there
	hint    store.Hint
}

type ledgerEdit struct {
	key    string
	record *LedgerRecord // nil: removed
}

// change begins the change of a turn.
func (s *session) change(st *Store, now int64, stamp string) *change {
	ch := &s.work
	clear(ch.log)
	*ch = change{
		st: st, s: s, next: s.state, now: now, stamp: stamp,
		log: ch.log[:0], queue: s.queue, active: s.active,
	}
	return ch
}

// entry appends a log entry and returns it for completion.
func (ch *change) entry(e store.NewEntry, kind store.Kind, run string) *store.Entry {
	if ch.stamp == "" {
		ch.stamp = ch.st.random(6)
	}
	e.Kind = kind
	head := &ch.next.Head
	ch.log = append(ch.log, store.Entry{
		NewEntry: e, Offset: head.Offset + 1, Stamp: ch.stamp + strconv.Itoa(len(ch.log)), Prev: head.Stamp,
		Time: ch.now, Run: run,
	})
	last := &ch.log[len(ch.log)-1]
	*head = last.Position()
	return last
}

// row seals a transcript row.
func (ch *change) row(r store.NewRow, run, qid string) store.Row {
	ch.next.LastRow++
	ch.next.Messages++
	if r.Role == store.RoleTool {
		ch.next.ToolCalls++
	}
	row := store.Row{NewRow: r, ID: ch.next.LastRow, Time: ch.now, Run: run, QID: qid}
	ch.rows = append(ch.rows, row)
	return row
}

// runRows seals rows of the active run and returns their ids.
func (ch *change) runRows(rows []store.NewRow) []int64 {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i] = ch.row(r, ch.next.Run, "").ID
	}
	ch.next.RunRows += int64(len(rows))
	return ids
}

// queueEvent announces the queue as it now stands. While a dequeued run has not
// started, the announcement is owed instead (contract 3, starting window).
func (ch *change) queueEvent() {
	if ch.next.Dequeued {
		ch.next.QueueOwed = true
		return
	}
	ch.queueEntry("")
}

// closeWindow ends the starting window and pays an owed announcement.
func (ch *change) closeWindow() {
	ch.next.Dequeued = false
	if ch.next.QueueOwed {
		ch.next.QueueOwed = false
		ch.queueEntry("")
	}
}

func (ch *change) queueEntry(dequeued string) {
	ids := make([]string, len(ch.queue))
	for i, q := range ch.queue {
		ids[i] = q.item.QID
	}
	e := ch.entry(store.NewEntry{}, store.KindQueue, "")
	e.QueueIDs, e.QueueLength, e.Dequeued = ids, len(ids), dequeued
}

// push adds an item to the queue.
func (ch *change) push(it *store.Item) {
	ch.next.ItemSeq++
	q := make([]queued, len(ch.queue), len(ch.queue)+1)
	copy(q, ch.queue)
	ch.setQueue(append(q, queued{ch.next.ItemSeq, it}))
}

// remove takes the item at i out of the queue.
func (ch *change) remove(i int) *store.Item {
	it := ch.queue[i].item
	q := make([]queued, 0, len(ch.queue)-1)
	ch.setQueue(append(append(q, ch.queue[:i]...), ch.queue[i+1:]...))
	return it
}

// cancelAll empties the queue, if it is not empty.
func (ch *change) cancelAll() {
	if len(ch.queue) == 0 {
		return
	}
	for _, q := range ch.queue {
		ch.mark(q.item.QID, func(r *LedgerRecord) { r.State = store.StateCancelled })
	}
	ch.setQueue(nil)
	ch.queueEvent()
}

func (ch *change) setQueue(q []queued) {
	ch.queue = q
	ch.next.QueueLength, ch.next.QueueBytes = len(q), 0
	for _, e := range q {
		ch.next.QueueBytes += itemBytes(e.item)
	}
}

func itemBytes(it *store.Item) int { return len(it.Row.Data) + len(it.Options) }

// find returns the place of an item in the queue, or -1.
func (ch *change) find(qid string) int {
	for i, q := range ch.queue {
		if q.item.QID == qid {
			return i
		}
	}
	return -1
}

// record adds a ledger record and makes room for it.
func (ch *change) record(key string, r LedgerRecord) {
	ch.next.LedgerSeq++
	r.Seq = ch.next.LedgerSeq
	ch.edits = append(ch.edits, ledgerEdit{key, &r})
	l := &ch.s.ledger
	if len(l.records) < ch.st.limits.Load().LedgerEntries {
		return
	}
	if old, ok := l.oldest(); ok && old != key {
		ch.edits = append(ch.edits, ledgerEdit{old, nil})
	}
}

// mark changes the record of an item.
func (ch *change) mark(qid string, edit func(*LedgerRecord)) {
	old := ch.s.ledger.item(qid)
	if old == nil {
		return
	}
	r := *old
	edit(&r)
	ch.edits = append(ch.edits, ledgerEdit{itemKey(qid), &r})
}

// keep trims the log to the newest entries, never past limit.
func (ch *change) keep(limit int64) {
	l := ch.st.limits.Load()
	count, size := 0, 0
	floor := int64(0)
	older := func(e *store.Entry) bool {
		count++
		size += entryBytes(e)
		if count > l.LogKeep || size > l.LogKeepBytes {
			floor = e.Offset
			return true
		}
		return false
	}
	for i := len(ch.log) - 1; i >= 0; i-- {
		count++
		size += entryBytes(&ch.log[i])
	}
	for i := len(ch.s.log) - 1; i >= 0 && !older(&ch.s.log[i]); i-- {
		continue
	}
	ch.trim = min(floor, limit)
}

func entryBytes(e *store.Entry) int {
	n := len(e.Payload) + len(e.Name) + 64
	for _, id := range e.QueueIDs {
		n += len(id)
	}
	return n
}

// apply makes the change true. The caller holds the turn.
func (ch *change) apply() {
	s := ch.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ch.next.busy() {
		ch.next.IdleSince = ch.now
	}
	s.state = ch.next
	if ch.reset {
		s.log, s.logged = nil, 0
	}
	s.log = append(s.log, ch.log...)
	if n := ch.trim - ch.firstOffset(); n >= 0 && len(s.log) > 0 {
		s.log = s.log[min(int(n)+1, len(s.log)):]
	}
	if !s.busy() && cap(s.log) > 2*len(s.log) {
		s.log = slices.Clone(s.log) // an idle log may stay for long
	}
	if ch.wipe {
		s.rows = nil
	}
	s.rows = append(s.rows, ch.rows...)
	s.queue, s.active = ch.queue, ch.active
	for _, e := range ch.edits {
		s.ledger.set(e.key, e.record)
	}
	if ch.folded {
		s.checkpoint = ch.fold
	}
	if ch.drop {
		s.ledger, s.rows, s.log, s.checkpoint, s.logged = ledger{}, nil, nil, nil, 0
	}
}

func (ch *change) firstOffset() int64 {
	if len(ch.s.log) == 0 {
		return 0
	}
	return ch.s.log[0].Offset
}

package memory

import (
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// create makes a new incarnation. Of what was there before only the ledger stays.
func (ch *change) create(g store.Guard, a store.Attrs) {
	old := ch.next.Root
	ch.wipe = ch.wipe || old.Incarnation != ""
	ch.reset = true
	ch.next = state{Root: Root{
		Version: LayoutVersion, Incarnation: ch.st.random(12), Owner: g.Owner, Profile: g.Profile,
		Source: a.Source, Model: a.Model, Provider: a.Provider, Title: a.Title, Preview: a.Preview,
		TitleSource: store.TitleAuto, Created: ch.now, Updated: ch.now, MetaVersion: 1,
		Boot: ch.st.opts.Boot, Head: store.Origin, Generation: 1,
		LedgerSeq: old.LedgerSeq, ItemSeq: old.ItemSeq, Fence: old.Fence,
	}}
}

// grant gives the tenure to a token.
func (ch *change) grant(token, node string, ttl time.Duration) {
	ch.next.Fence++
	ch.next.token, ch.next.node = token, node
	ch.next.lease = ch.now + ttl.Milliseconds()
	ch.next.seq, ch.next.last, ch.next.taken = 0, appended{}, ""
}

// vacate clears the tenure.
func (ch *change) vacate() {
	ch.next.token, ch.next.node, ch.next.lease = "", "", 0
	ch.next.seq, ch.next.last, ch.next.taken = 0, appended{}, ""
}

// begin makes an item the active run and returns its user row. The ledger of an
// item that was not dequeued is the caller's matter.
func (ch *change) begin(it *store.Item, dequeued bool) store.Row {
	n := &ch.next
	n.Run, n.QID, n.Executor, n.Phase = it.Run, it.QID, it.Executor, store.PhaseStarting
	n.BegunIn = ch.st.Generation()
	n.Attempt, n.Abort, n.WireID, n.Upstream, n.RunRows = 0, false, "", nil, 1
	n.Covered, n.Updated, n.Began = n.Head.Offset, ch.now, ch.now
	ch.active = it
	ch.fold, ch.folded = nil, true
	row := ch.row(it.Row, it.Run, it.QID)
	n.UserRow = row.ID
	if dequeued {
		ch.queueEntry(it.QID)
		n.Dequeued = true
		ch.mark(it.QID, func(r *LedgerRecord) { r.State, r.Row = store.StateActive, row.ID })
	}
	e := ch.entry(store.NewEntry{Payload: it.Row.Data}, store.KindPeer, it.Run)
	e.Except, e.QID, e.Row = it.CID, it.QID, row.ID
	return row
}

// pop begins the first waiting item.
func (ch *change) pop() (*store.Item, store.Row) {
	it := ch.remove(0)
	return it, ch.begin(it, true)
}

// userRow makes the user row of the active run again.
func (s *session) userRow() store.Row {
	return store.Row{NewRow: s.active.Row, ID: s.UserRow, Time: s.Began, Run: s.Run, QID: s.QID}
}

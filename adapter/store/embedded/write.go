package embedded

import (
	bolt "go.etcd.io/bbolt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// writer collects the first error of a transaction's writes.
type writer struct {
	tx  *bolt.Tx
	err error
}

func (w *writer) put(bucket, key, value []byte, err error) {
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		w.err = w.tx.Bucket(bucket).Put(key, value)
	}
}

func (w *writer) remove(bucket, key []byte) {
	if w.err == nil {
		w.err = w.tx.Bucket(bucket).Delete(key)
	}
}

func (w *writer) removeAll(bucket, prefix []byte) {
	if w.err == nil {
		w.err = removeAll(w.tx.Bucket(bucket), prefix)
	}
}

// write stores a delta.
func write(tx *bolt.Tx, d *memory.Delta) error {
	w := &writer{tx: tx}
	sid, prefix := []byte(d.SID), prefixOf(d.SID)
	if d.Drop || d.Full {
		w.removeAll(bucketQueue, prefix)
		w.removeAll(bucketLedger, prefix)
	}
	if d.Drop || d.Wipe {
		w.removeAll(bucketRows, prefix)
	}
	w.root(d)
	if d.Drop {
		w.remove(bucketActive, sid)
		w.remove(bucketFold, sid)
		w.removeAll(bucketLog, prefix)
		return w.err
	}
	for i := range d.Rows {
		b, err := encodeRow(&d.Rows[i])
		w.put(bucketRows, numberKey(d.SID, d.Rows[i].ID), b, err)
	}
	for _, seq := range d.Pop {
		w.remove(bucketQueue, numberKey(d.SID, seq))
	}
	for _, q := range d.Push {
		b, err := encodeItem(q.Item)
		w.put(bucketQueue, numberKey(d.SID, q.Seq), b, err)
	}
	w.ledger(d)
	w.active(d)
	return w.err
}

// root stores the root and what is found by it.
func (w *writer) root(d *memory.Delta) {
	if w.err != nil || d.Root == nil {
		return
	}
	sid := []byte(d.SID)
	if old := w.tx.Bucket(bucketRoot).Get(sid); old != nil {
		was, err := decodeRoot(old)
		if err != nil {
			w.err = err
			return
		}
		w.remove(bucketActivity, activityKey(was.Updated, d.SID))
	}
	if d.Drop {
		w.remove(bucketRoot, sid)
		w.remove(bucketBusy, sid)
		return
	}
	b, err := encode(d.Root)
	w.put(bucketRoot, sid, b, err)
	if d.Root.Run != "" || d.Root.QueueLength > 0 {
		w.put(bucketBusy, sid, nil, nil)
	} else {
		w.remove(bucketBusy, sid)
	}
	b, err = encode(summary(d.Root))
	w.put(bucketActivity, activityKey(d.Root.Updated, d.SID), b, err)
}

func (w *writer) ledger(d *memory.Delta) {
	for key, r := range d.Ledger {
		k := partKey(d.SID, key)
		if r == nil {
			w.remove(bucketLedger, k)
			continue
		}
		b, err := encode(r)
		w.put(bucketLedger, k, b, err)
	}
}

// active stores the item, the checkpoint and the log of the active run. The log
// comes in few large records, since it is only ever read as a whole.
func (w *writer) active(d *memory.Delta) {
	sid := []byte(d.SID)
	if d.ActiveSet {
		w.optional(bucketActive, sid, d.Active != nil, func() ([]byte, error) { return encodeItem(d.Active) })
	}
	if d.FoldSet {
		w.optional(bucketFold, sid, d.Checkpoint != nil, func() ([]byte, error) { return d.Checkpoint, nil })
		w.removeAll(bucketLog, prefixOf(d.SID))
	}
	if len(d.Log) > 0 {
		b, err := encodeLog(d.Log)
		w.put(bucketLog, numberKey(d.SID, d.Log[0].Offset), b, err)
	}
}

func (w *writer) optional(bucket, key []byte, present bool, value func() ([]byte, error)) {
	if !present {
		w.remove(bucket, key)
		return
	}
	b, err := value()
	w.put(bucket, key, b, err)
}

// listed is what the activity index knows of a session.
type listed struct {
	Owner    string `json:"o,omitempty"`
	Profile  string `json:"p,omitempty"`
	Title    string `json:"t,omitempty"`
	Preview  string `json:"v,omitempty"`
	Archived bool   `json:"a,omitempty"`
	Hidden   bool   `json:"h,omitempty"` // deleted, or about to be
	Until    int64  `json:"u,omitempty"` // tombstones: when they are forgotten
}

func summary(r *memory.Root) listed {
	if r.Incarnation == "" && r.Tombstone == 0 {
		return listed{Hidden: true, Until: 1} // nothing is known of it any more
	}
	return listed{r.Owner, r.Profile, r.Title, r.Preview, r.Archived, r.Deleting || r.Tombstone != 0, r.Tombstone}
}

func (l *listed) session() store.Session {
	return store.Session{Owner: l.Owner, Profile: l.Profile, Title: l.Title, Preview: l.Preview, Archived: l.Archived}
}

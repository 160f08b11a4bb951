package memory

import "github.com/hermes-edge/hermes-edge/adapter/store"

// LedgerRecord is what became of an item, a withdrawn attempt or an operation.
// Records are immutable.
type LedgerRecord struct {
	Seq     int64          `json:"s"`
	State   store.State    `json:"st,omitempty"`
	Run     string         `json:"run,omitempty"`
	Digest  string         `json:"dig,omitempty"`
	Before  store.Position `json:"b"`
	Last    store.Position `json:"l"`
	Row     int64          `json:"row,omitempty"`
	Ack     bool           `json:"ack,omitempty"`     // another attempt was told of this item
	Started bool           `json:"started,omitempty"` // Submit began it at once
	Code    store.Code     `json:"c,omitempty"`       // operations: the answer
}

// terminal reports whether the record may be pruned.
func (r *LedgerRecord) terminal() bool { return r.State == "" || r.State.Ended() }

// Ledger keys: the first byte says what the rest names.
func itemKey(qid string) string    { return "q" + qid }
func attemptKey(run string) string { return "w" + run }
func opKey(id string) string       { return "o" + id }

// ledger holds records by key and the order in which they came, for pruning.
type ledger struct {
	records map[string]*LedgerRecord
	order   []ordered
}

type ordered struct {
	seq int64
	key string
}

func (l *ledger) get(key string) *LedgerRecord { return l.records[key] }

func (l *ledger) item(qid string) *LedgerRecord { return l.records[itemKey(qid)] }

// byRun finds the item that carries a run key. It is used in refusals only, so
// it searches.
func (l *ledger) byRun(run string) *LedgerRecord {
	for key, r := range l.records {
		if key[0] == 'q' && r.Run == run {
			return r
		}
	}
	return nil
}

func (l *ledger) set(key string, r *LedgerRecord) {
	if r == nil {
		delete(l.records, key)
		return
	}
	if l.records == nil {
		l.records = make(map[string]*LedgerRecord)
	}
	if old := l.records[key]; old == nil || old.Seq != r.Seq {
		l.order = append(l.order, ordered{r.Seq, key})
	}
	l.records[key] = r
}

// oldest returns the key of the oldest record that may go, and forgets places in
// the order that no record holds any more.
func (l *ledger) oldest() (string, bool) {
	live := l.order[:0]
	found := ""
	for i, o := range l.order {
		r := l.records[o.key]
		if r == nil || r.Seq != o.seq {
			continue
		}
		live = append(live, o)
		if r.terminal() {
			found = o.key
			live = append(live, l.order[i+1:]...)
			break
		}
	}
	clear(l.order[len(live):])
	l.order = live
	return found, found != ""
}

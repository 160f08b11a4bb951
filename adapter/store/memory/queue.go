package memory

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Withdraw implements store.Items.
func (st *Store) Withdraw(ctx context.Context, sid, qid, run string) (store.WithdrawResult, error) {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return store.WithdrawResult{}, err
	}
	ch := s.change(st, now, "")
	res := withdraw(ch, qid, run)
	if err := st.commit(ctx, ch); err != nil {
		return store.WithdrawResult{}, err
	}
	return res, nil
}

func withdraw(ch *change, qid, run string) store.WithdrawResult {
	s := ch.s
	r := s.ledger.item(qid)
	if r != nil && r.Run == run && (r.Ack || r.State.Ended()) {
		return store.WithdrawResult{Code: store.Kept, State: r.State}
	}
	if r != nil && r.Run == run && r.State == store.StateActive {
		return store.WithdrawResult{Code: store.Active, State: r.State, Token: s.token, Seq: s.seq, Phase: s.Phase}
	}
	res := store.WithdrawResult{Code: store.Done}
	if r != nil && r.Run != run {
		res = store.WithdrawResult{Code: store.Kept, State: r.State}
	}
	if s.ledger.get(attemptKey(run)) != nil {
		return res
	}
	ch.level = durable
	if s.Incarnation == "" {
		ch.next.Version = LayoutVersion
		ch.next.Tombstone = ch.now + store.TombstoneTTL.Milliseconds()
	}
	ch.record(attemptKey(run), LedgerRecord{})
	if r == nil || r.Run != run {
		return res
	}
	ch.edits = append(ch.edits, ledgerEdit{itemKey(qid), nil})
	if i := ch.find(qid); i >= 0 {
		ch.remove(i)
		ch.queueEvent()
	}
	return res
}

// CancelQueued implements store.Items.
func (st *Store) CancelQueued(ctx context.Context, sid string, g store.Guard, qid string) (store.CancelResult, error) {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return store.CancelResult{}, err
	}
	ch := s.change(st, now, "")
	res := cancel(ch, g, qid)
	if err := st.commit(ctx, ch); err != nil {
		return store.CancelResult{}, err
	}
	return res, nil
}

func cancel(ch *change, g store.Guard, qid string) store.CancelResult {
	if ch.s.forbids(g) {
		return store.CancelResult{Code: store.Forbidden}
	}
	i := ch.find(qid)
	if i < 0 || !ch.s.exists() {
		res := store.CancelResult{Code: store.NotQueued}
		if r := ch.s.ledger.item(qid); r != nil && ch.s.exists() {
			res.State = r.State
		}
		return res
	}
	ch.level = durable
	ch.remove(i)
	ch.mark(qid, func(r *LedgerRecord) { r.State = store.StateCancelled })
	ch.queueEvent()
	return store.CancelResult{Code: store.Cancelled, State: store.StateCancelled}
}

// DropQueue implements store.Sessions.
func (st *Store) DropQueue(ctx context.Context, sid string, g store.Guard, notAfter int64) (store.Code, error) {
	return st.code(ctx, sid, func(ch *change) store.Code {
		switch {
		case !ch.s.exists():
			return store.None
		case ch.s.forbids(g):
			return store.Forbidden
		case ch.st.late(ch.now, notAfter):
			return store.Expired
		}
		if len(ch.queue) > 0 {
			ch.level = durable
			ch.cancelAll()
		}
		return store.OK
	})
}

// code runs an operation whose result is a code alone.
func (st *Store) code(ctx context.Context, sid string, op func(*change) store.Code) (store.Code, error) {
	s, now, err := st.take(ctx, sid)
	if err != nil {
		return "", err
	}
	ch := s.change(st, now, "")
	c := op(ch)
	if err := st.commit(ctx, ch); err != nil {
		return "", err
	}
	return c, nil
}

// QueuedRows implements store.Items.
func (st *Store) QueuedRows(ctx context.Context, sid string, qids []string) (map[string]store.Row, error) {
	s, err := st.read(ctx, sid)
	if err != nil || s == nil {
		return nil, err
	}
	found := make(map[string]store.Row, len(qids))
	stored := make(map[string]int64) // rows to be looked up, by qid
	s.mu.RLock()
	for _, qid := range qids {
		if r := s.ledger.item(qid); r != nil && r.Row > 0 && s.exists() {
			stored[qid] = r.Row
		}
	}
	for _, q := range s.queue {
		for _, qid := range qids {
			if qid == q.item.QID {
				found[qid] = store.Row{NewRow: q.item.Row, Time: q.item.Accepted, Run: q.item.Run, QID: qid}
			}
		}
	}
	s.mu.RUnlock()
	for qid, id := range stored {
		if _, ok := found[qid]; ok {
			continue
		}
		rows, _, err := st.rowsBefore(ctx, s, id+1, 1, 1)
		if err != nil {
			return nil, err
		}
		if len(rows) == 1 && rows[0].QID == qid {
			found[qid] = rows[0]
		}
	}
	return found, nil
}

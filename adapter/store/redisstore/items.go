package redisstore

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Submit implements store.Items.
func (st *Store) Submit(ctx context.Context, a store.SubmitArgs) (store.SubmitResult, error) {
	if err := checkSID(a.SID); err != nil {
		return store.SubmitResult{}, err
	}
	if err := st.lists.before(ctx, a.SID, a.Guard); err != nil {
		return store.SubmitResult{}, err
	}
	it, at := &a.Item, &a.Create
	start := store.Start{}
	if a.Start != nil {
		start = *a.Start
	}
	r, err := st.session(ctx, "submit", a.SID,
		st.channel(a.SID), random(12), random(6), a.Guard.Owner, a.Guard.Profile,
		at.Source, at.Model, at.Provider, at.Title, at.Preview,
		it.QID, it.Run, it.Digest, it.Executor, it.CID, it.Profile, string(it.Row.Role), it.Row.Data, it.Options,
		flag(a.Start != nil), start.Token, start.Node, start.TTL.Milliseconds(), a.NotAfter, st.process(ctx, a.SID))
	if err != nil {
		return store.SubmitResult{}, err
	}
	res := store.SubmitResult{
		Code: r.Code, Incarnation: r.str(), Fence: r.int(), Before: r.position(), Last: r.position(),
		Length: int(r.int()), Orphan: r.bool(), State: store.State(r.str()), Run: r.str(),
	}
	row, began := r.int(), r.int()
	switch res.Code {
	case store.Started:
		res.Length = 0
		res.Row = store.Row{NewRow: it.Row, ID: row, Time: began, Run: it.Run, QID: it.QID}
	case store.Expired:
		res.Now = r.Now
	}
	if res.Code != store.Started {
		res.Fence = 0
	}
	if res.Code != store.Queued {
		res.Length = 0
	}
	if res.Code == store.Started || res.Code == store.Queued {
		st.lists.after(a.SID, a.Guard, r.Now)
	}
	return res, nil
}

// Withdraw implements store.Items.
func (st *Store) Withdraw(ctx context.Context, sid, qid, run string) (store.WithdrawResult, error) {
	r, err := st.session(ctx, "withdraw", sid, st.channel(sid), random(6), qid, run, st.process(ctx, sid))
	if err != nil {
		return store.WithdrawResult{}, err
	}
	res := store.WithdrawResult{Code: r.Code, State: store.State(r.str()), Token: r.str(), Seq: r.int(), Phase: store.Phase(r.str())}
	if res.Code != store.Active {
		res.Token, res.Seq, res.Phase = "", 0, ""
	}
	if res.Code == store.Done {
		res.State = ""
	}
	return res, nil
}

// CancelQueued implements store.Items.
func (st *Store) CancelQueued(ctx context.Context, sid string, g store.Guard, qid string) (store.CancelResult, error) {
	r, err := st.session(ctx, "cancel", sid, st.channel(sid), random(6), g.Owner, g.Profile, qid)
	if err != nil {
		return store.CancelResult{}, err
	}
	return store.CancelResult{Code: r.Code, State: store.State(r.str())}, nil
}

// QueuedRows implements store.Items.
func (st *Store) QueuedRows(ctx context.Context, sid string, qids []string) (map[string]store.Row, error) {
	r, err := st.session(ctx, "queued_rows", sid, texts(qids)...)
	if err != nil {
		return nil, err
	}
	found := make(map[string]store.Row, len(qids))
	for _, v := range r.list() {
		p := &reply{}
		p.values, _ = v.([]any)
		qid := p.str()
		found[qid] = store.Row{
			Run: p.str(), NewRow: store.NewRow{Role: store.Role(p.str()), Data: p.bytes()}, ID: p.int(), Time: p.int(), QID: qid,
		}
	}
	return found, nil
}

// texts are the arguments of a counted list of strings.
func texts(list []string) []any {
	args := make([]any, 0, len(list)+1)
	args = append(args, len(list))
	for _, s := range list {
		args = append(args, s)
	}
	return args
}

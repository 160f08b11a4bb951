package redisstore

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// eventArgs are the arguments of counted events.
func eventArgs(args []any, events []store.NewEntry) []any {
	args = append(args, len(events))
	for _, e := range events {
		args = append(args, string(e.Kind), e.Name, e.Payload)
	}
	return args
}

// rowArgs are the arguments of counted rows.
func rowArgs(args []any, rows []store.NewRow) []any {
	args = append(args, len(rows))
	for _, r := range rows {
		args = append(args, string(r.Role), r.Data)
	}
	return args
}

// toOwner reads what all operations of an owner answer.
func toOwner(r *reply) store.OwnerResult {
	return store.OwnerResult{
		Code: r.Code, Before: r.position(), Last: r.position(), Time: r.int(),
		Abort: r.bool(), MetaVersion: r.int(), QueueLength: int(r.int()), Seq: r.int(),
		State: store.State(r.str()), Rows: r.ints(),
	}
}

// Append implements store.Runs.
func (st *Store) Append(ctx context.Context, b store.Batch) (store.OwnerResult, error) {
	b.Stamp = stamped(b.Stamp)
	if plain(&b) {
		r, err := st.session(ctx, "deltas", b.SID, deltaArgs(st.channel(b.SID), &b)...)
		if err != nil {
			return store.OwnerResult{}, err
		}
		if r.Code == store.OK {
			return toOwner(r), nil
		}
	}
	return st.append(ctx, &b)
}

// plain reports whether a batch holds plain events only, as nearly all do.
func plain(b *store.Batch) bool {
	for i := range b.Events {
		if b.Events[i].Kind == store.KindStarted {
			return false
		}
	}
	return len(b.Rows) == 0 && b.Checkpoint == nil && b.Patch.Phase == "" && b.Patch.WireID == "" && b.Patch.Upstream == nil
}

func deltaArgs(channel string, b *store.Batch) []any {
	args := make([]any, 0, 7+2*len(b.Events))
	args = append(args, channel, b.Stamp, b.Token, b.Run, b.Seq, max(1, b.TTL.Milliseconds()), len(b.Events))
	for _, e := range b.Events {
		args = append(args, e.Name, e.Payload)
	}
	return args
}

// append writes any batch.
func (st *Store) append(ctx context.Context, b *store.Batch) (store.OwnerResult, error) {
	args := make([]any, 0, 16+3*len(b.Events)+2*len(b.Rows))
	args = append(args, st.channel(b.SID), b.Stamp, b.Token, b.Run, b.Seq, b.TTL.Milliseconds(),
		string(b.Patch.Phase), b.Patch.WireID, flag(b.Patch.Upstream != nil), b.Patch.Upstream,
		flag(b.Checkpoint != nil), b.Checkpoint)
	args = rowArgs(eventArgs(args, b.Events), b.Rows)
	r, err := st.session(ctx, "append", b.SID, args...)
	if err != nil {
		return store.OwnerResult{}, err
	}
	return toOwner(r), nil
}

// Renew implements store.Runs.
func (st *Store) Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (store.OwnerResult, error) {
	r, err := st.session(ctx, "renew", sid, token, run, seq, ttl.Milliseconds())
	if err != nil {
		return store.OwnerResult{}, err
	}
	return toOwner(r), nil
}

// Release implements store.Runs.
func (st *Store) Release(ctx context.Context, sid, token, run string, seq int64, upstream []byte) (store.OwnerResult, error) {
	r, err := st.session(ctx, "release", sid, st.channel(sid), token, run, seq, flag(upstream != nil), upstream)
	if err != nil {
		return store.OwnerResult{}, err
	}
	return toOwner(r), nil
}

// Finish implements store.Runs.
func (st *Store) Finish(ctx context.Context, a store.FinishArgs) (store.FinishResult, error) {
	args := make([]any, 0, 32+3*len(a.Events)+2*len(a.Rows))
	args = append(args, st.channel(a.SID), stamped(a.Stamp), a.Token, a.Run, a.Seq, a.TTL.Milliseconds(),
		string(a.Outcome), a.Node, st.process(ctx, a.SID), flag(a.Pop != nil))
	args = append(args, texts(a.Pop)...)
	u := &a.Usage
	args = append(args, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning, u.Context)
	args = append(eventArgs(args, a.Events), a.End.Name, a.End.Payload)
	r, err := st.session(ctx, "finish", a.SID, rowArgs(args, a.Rows)...)
	if err != nil {
		return store.FinishResult{}, err
	}
	res := store.FinishResult{OwnerResult: toOwner(r), Item: toItem(r.list())}
	row, began := r.int(), r.int()
	if it := res.Item; it != nil {
		res.Row = store.Row{NewRow: it.Row, ID: row, Time: began, Run: it.Run, QID: it.QID}
	}
	if g := (store.Guard{Owner: r.str(), Profile: r.str()}); g != (store.Guard{}) {
		st.lists.after(a.SID, g, res.Time)
	}
	return res, nil
}

// RequestAbort implements store.Runs.
func (st *Store) RequestAbort(ctx context.Context, sid string, g store.Guard, run, _ string, entry store.NewEntry) (store.AbortResult, error) {
	r, err := st.session(ctx, "abort", sid, st.channel(sid), random(6), g.Owner, g.Profile, run, entry.Name, entry.Payload)
	if err != nil {
		return store.AbortResult{}, err
	}
	res := store.AbortResult{
		Code: r.Code, State: store.State(r.str()), Alive: r.bool(), Node: r.str(), Phase: store.Phase(r.str()),
	}
	if res.Code != store.OK && res.Code != store.Already {
		res.Alive, res.Node, res.Phase = false, "", ""
	}
	return res, nil
}

// TakeOver implements store.Runs.
func (st *Store) TakeOver(ctx context.Context, a store.TakeOverArgs) (store.TakeOverResult, error) {
	args := append([]any{st.channel(a.SID), random(6), a.Token, a.Node, a.TTL.Milliseconds(), st.process(ctx, a.SID), flag(a.Caps != nil)}, texts(a.Caps)...)
	r, err := st.session(ctx, "takeover", a.SID, args...)
	if err != nil {
		return store.TakeOverResult{}, err
	}
	res := store.TakeOverResult{
		Code: r.Code, Remaining: time.Duration(max(0, r.int())) * time.Millisecond, Node: r.str(), Executor: r.str(),
		Item: toItem(r.list()), Rerun: r.bool(), Checkpoint: r.bytes(),
	}
	if res.Entries, err = toEntries(r.list()); err != nil {
		return store.TakeOverResult{}, err
	}
	alive, record := r.bool(), r.list()
	if res.Item == nil {
		return res, nil
	}
	if res.Session, err = toSession(a.SID, alive, record); err != nil {
		return store.TakeOverResult{}, err
	}
	f, it := fields(record), res.Item
	res.Fence = res.Session.Run.Fence
	res.Row = store.Row{NewRow: it.Row, ID: number(f["ur"]), Time: number(f["bt"]), Run: it.Run, QID: it.QID}
	return res, nil
}

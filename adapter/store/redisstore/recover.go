package redisstore

import (
	"context"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Generation implements store.Recovery.
func (st *Store) Generation() uint64 { return st.generations.count.Load() }

// itemArgs are the arguments of an item that has been accepted.
func itemArgs(args []any, it *store.Item) []any {
	return append(args, it.QID, it.Run, it.Digest, it.Executor, it.CID, it.Profile,
		string(it.Row.Role), it.Row.Data, it.Options, it.Accepted)
}

// whose are the arguments that say where an item belongs.
func (st *Store) whose(sid, stamp string, g store.Guard, at *store.Attrs) []any {
	return []any{
		st.channel(sid), random(12), stamped(stamp), g.Owner, g.Profile,
		at.Source, at.Model, at.Provider, at.Title, at.Preview,
	}
}

// Reinstate implements store.Recovery.
func (st *Store) Reinstate(ctx context.Context, a store.ReinstateArgs) (store.ReinstateResult, error) {
	if err := checkSID(a.SID); err != nil {
		return store.ReinstateResult{}, err
	}
	if err := st.lists.before(ctx, a.SID, a.Guard); err != nil {
		return store.ReinstateResult{}, err
	}
	rec := &a.Record
	args := itemArgs(st.whose(a.SID, a.Stamp, a.Guard, &a.Create), &a.Item)
	args = append(args, string(rec.Phase), rec.Executor, rec.Attempt, flag(rec.Abort), rec.WireID, rec.Upstream,
		rec.Token, rec.Fence, rec.Node, a.TTL.Milliseconds(), a.Seq, a.Checkpoint)
	r, err := st.session(ctx, "reinstate", a.SID, rowArgs(args, a.Rows)...)
	if err != nil {
		return store.ReinstateResult{}, err
	}
	res := store.ReinstateResult{Code: r.Code, Incarnation: r.str(), Last: r.position(), Rows: r.ints(), Token: r.str()}
	if res.Code == store.OK {
		st.lists.after(a.SID, a.Guard, r.Now)
	}
	return res, nil
}

// Bury implements store.Recovery.
func (st *Store) Bury(ctx context.Context, a store.BuryArgs) (store.Code, error) {
	if err := checkSID(a.SID); err != nil {
		return "", err
	}
	if err := st.lists.before(ctx, a.SID, a.Guard); err != nil {
		return "", err
	}
	args := itemArgs(st.whose(a.SID, "", a.Guard, &a.Create), &a.Item)
	return st.code(st.session(ctx, "bury", a.SID, rowArgs(args, a.Rows)...))
}

// TakeSlot implements store.Slots.
func (st *Store) TakeSlot(ctx context.Context, gateway, run string, limit int, ttl time.Duration) (store.SlotResult, error) {
	r, err := st.call(ctx, "take_slot", st.slotKeys(gateway), run, limit, ttl.Milliseconds())
	if err != nil {
		return store.SlotResult{}, err
	}
	return store.SlotResult{Code: r.Code, Place: int(r.int())}, nil
}

// FreeSlot implements store.Slots.
func (st *Store) FreeSlot(ctx context.Context, gateway, run string) error {
	_, err := st.call(ctx, "free_slot", st.slotKeys(gateway), run)
	return err
}

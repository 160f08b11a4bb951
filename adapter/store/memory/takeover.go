package memory

import (
	"context"
	"slices"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxAttempts bounds how often a run that was never sent is begun again: a run
// that ends the process of every taker must not go through all nodes.
const maxAttempts = 2

// TakeOver implements store.Runs.
func (st *Store) TakeOver(ctx context.Context, a store.TakeOverArgs) (store.TakeOverResult, error) {
	s, now, err := st.take(ctx, a.SID)
	if err != nil {
		return store.TakeOverResult{}, err
	}
	ch := s.change(st, now, "")
	res := takeOver(ch, &a)
	if err := st.commit(ctx, ch); err != nil {
		return store.TakeOverResult{}, err
	}
	return res, nil
}

func takeOver(ch *change, a *store.TakeOverArgs) store.TakeOverResult {
	s := ch.s
	if !s.exists() || !s.busy() {
		return store.TakeOverResult{Code: store.Idle}
	}
	if a.Token != "" && s.token == a.Token && s.Run != "" && s.taken != "" {
		return ch.taken(s.taken, s.log)
	}
	if s.alive(ch.now, ch.st.opts.SingleProcess) {
		return store.TakeOverResult{Code: store.Held, Node: s.node, Remaining: s.remaining(ch.now, ch.st.opts.SingleProcess)}
	}
	executor := s.Executor
	if s.Run == "" {
		executor = s.queue[0].item.Executor
	}
	if a.Caps != nil && !slices.Contains(a.Caps, executor) {
		return store.TakeOverResult{Code: store.Unfit, Executor: executor}
	}
	ch.level = durable
	ch.wonForCaller()
	ch.grant(a.Token, a.Node, a.TTL)
	if s.Run == "" {
		ch.pop()
		ch.next.taken = store.Next
		return ch.taken(store.Next, nil)
	}
	ch.next.Attempt++
	ch.next.taken = store.Resumed
	return ch.taken(store.Resumed, s.log)
}

// remaining is the rest of the lease; of one that does not expire, the time
// after which it is worth another look.
func (st *state) remaining(now int64, forever bool) time.Duration {
	if forever {
		return store.LeaseTTL
	}
	return time.Duration(max(0, st.lease-now)) * time.Millisecond
}

// taken answers the holder of a tenure won by TakeOver.
func (ch *change) taken(c store.Code, log []store.Entry) store.TakeOverResult {
	n := &ch.next
	it := *ch.active
	res := store.TakeOverResult{
		Code: c, Fence: n.Fence, Session: n.session(ch.s.sid, ch.now, ch.st.opts.SingleProcess), Item: &it,
		Row: store.Row{NewRow: it.Row, ID: n.UserRow, Time: n.Began, Run: n.Run, QID: n.QID},
	}
	if c == store.Next {
		return res
	}
	res.Rerun = n.Phase == store.PhaseStarting && !n.Abort && n.Attempt <= maxAttempts &&
		n.BegunIn == ch.st.Generation()
	res.Checkpoint, res.Entries = ch.s.checkpoint, entriesAfter(log, n.Covered)
	return res
}

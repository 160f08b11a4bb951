package engine

import (
	"context"
	"sync"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of what is kept in memory to make good what the store may lose.
const (
	keepFinishFor = time.Minute
	keptOfRun     = 16 << 20
	keptOfNode    = 64 << 20
)

// memory is what an owner knows of its run beyond the view: enough to make the run
// the active one again in a store that has lost it. It is guarded by the writer's
// turn.
type memory struct {
	rows  []store.NewRow // all rows, the user row first
	patch store.Patch    // phase and upstream ids as last written
	bytes int
	over  bool // the rows are too many to be kept
}

// remember takes in what a batch adds to the run.
func (r *runner) remember(rows []store.NewRow, p store.Patch) {
	mergePatch(&r.memory.patch, p)
	if len(rows) == 0 || r.memory.over || !r.e.lossy() {
		return
	}
	size := rowBytes(rows)
	r.memory.rows = append(r.memory.rows, rows...)
	r.memory.bytes += size
	if total := r.e.keptBytes.Add(int64(size)); r.memory.bytes > keptOfRun || total > keptOfNode {
		r.outgrow()
	}
}

// outgrow gives up the rows: the run cannot be brought back any more.
func (r *runner) outgrow() {
	r.e.keptBytes.Add(int64(-r.memory.bytes))
	r.memory = memory{patch: r.memory.patch, over: true}
}

// recall fetches what was stored of a run that another process has begun. What
// cannot be had makes the run one that is not brought back.
func (r *runner) recall(ctx context.Context, rec store.RunRecord) {
	if !r.e.lossy() {
		return
	}
	var mine []store.NewRow
	err := r.persist(ctx, func(ctx context.Context) error {
		head, err := r.e.head(ctx, r.s.sid)
		if err != nil {
			return err
		}
		_, rows, _, err := r.e.cfg.Store.Rows(ctx, r.s.sid, head.Generation, 0, historyPage, historyBytes)
		mine = nil
		for _, row := range rows {
			if row.Run == rec.Run {
				mine = append(mine, row.NewRow)
			}
		}
		return err
	})
	r.out.lock()
	defer r.out.unlock()
	r.forget()
	r.remember(mine, store.Patch{Phase: rec.Phase, WireID: rec.WireID, Upstream: rec.Upstream})
	if err != nil || int64(len(mine)) != rec.Rows {
		r.outgrow()
	}
}

// forget frees what is kept of the run.
func (r *runner) forget() {
	r.e.keptBytes.Add(int64(-r.memory.bytes))
	r.memory = memory{}
}

func rowBytes(rows []store.NewRow) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Data) + entryOverhead
	}
	return size
}

// account says all that is known of the run, so that a store can take it in with
// everything up to a sequence number. The caller holds the turn, or there is no
// writer.
func (r *runner) account(seq int64) store.ReinstateArgs {
	rec := store.RunRecord{
		Run: r.item.Run, QID: r.item.QID, Phase: store.PhaseStarting, Executor: r.item.Executor, Attempt: r.attempt,
		Abort: r.isAborted(), WireID: r.memory.patch.WireID, Upstream: r.memory.patch.Upstream,
		Token: r.token, Fence: r.fence, Node: r.e.cfg.Node,
	}
	if r.memory.patch.Phase != "" {
		rec.Phase = r.memory.patch.Phase
	}
	return store.ReinstateArgs{
		SID: r.s.sid, Guard: r.guard, Create: r.create, Item: *r.item, Record: rec, TTL: store.LeaseTTL, Seq: seq,
		Rows: r.memory.rows[:len(r.memory.rows):len(r.memory.rows)], Checkpoint: r.view.Encode(), Stamp: newStamp(),
	}
}

// keptFinish is an ending that the store has acknowledged and may yet lose.
type keptFinish struct {
	until time.Time
	args  store.FinishArgs
	run   store.ReinstateArgs // the run just before it ended
	bytes int
}

// keptFinishes are the endings of the last minute, oldest first.
type keptFinishes struct {
	mu   sync.Mutex
	list []keptFinish
}

// keepFinish remembers an acknowledged ending.
func (r *runner) keepFinish(args store.FinishArgs) {
	if !r.e.lossy() || r.memory.over {
		return
	}
	args.Pop = nil
	k := keptFinish{until: time.Now().Add(keepFinishFor), args: args, run: r.account(args.Seq - 1)}
	k.run.Checkpoint = nil // the open text is in the last rows
	k.bytes = rowBytes(k.run.Rows) + rowBytes(args.Rows) + len(args.End.Payload)
	e := r.e
	e.kept.mu.Lock()
	defer e.kept.mu.Unlock()
	e.kept.list = append(e.kept.list, k)
	total := e.keptBytes.Add(int64(k.bytes))
	for total > keptOfNode && len(e.kept.list) > 0 {
		total = e.keptBytes.Add(int64(-e.kept.list[0].bytes))
		e.kept.list = e.kept.list[1:]
	}
}

// forgetFinishes drops the endings whose time is over.
func (e *Engine) forgetFinishes() {
	e.kept.mu.Lock()
	defer e.kept.mu.Unlock()
	n := 0
	for now := time.Now(); n < len(e.kept.list) && now.After(e.kept.list[n].until); n++ {
		e.keptBytes.Add(int64(-e.kept.list[n].bytes))
	}
	clear(e.kept.list[:n])
	e.kept.list = e.kept.list[n:]
}

// sessions answers whose endings are kept.
func (k *keptFinishes) sessions() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	seen := map[string]bool{}
	var out []string
	for i := range k.list {
		if sid := k.list[i].args.SID; !seen[sid] {
			seen[sid] = true
			out = append(out, sid)
		}
	}
	return out
}

// of answers the kept endings of a session, oldest first.
func (k *keptFinishes) of(sid string) []keptFinish {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []keptFinish
	for i := range k.list {
		if k.list[i].args.SID == sid {
			out = append(out, k.list[i])
		}
	}
	return out
}

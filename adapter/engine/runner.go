package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Why a run's context ends.
var (
	errAborted      = errors.New("stopped by the user")
	errLost         = errors.New("the run belongs to another node now")
	errRestarting   = errors.New("the server is restarting")
	errTooLong      = errors.New("too much text")
	errTooManyTools = errors.New("too many open tools")
)

// runner carries out the runs of one tenure: the first one, and whatever Finish
// pops behind it. It holds the session's actor until it ends.
type runner struct {
	e       *Engine
	s       *session
	guard   store.Guard
	token   string
	aborted atomic.Pointer[string] // run key of the run to be stopped
	current atomic.Pointer[runContext]
	slot    atomic.Pointer[slot]

	// Owned by the runner's goroutine; seq and view by the holder of the writer's
	// turn while there is a writer.
	item    *store.Item
	row     store.Row
	seq     int64
	usage   store.Usage // of the session, this run not counted
	create  store.Attrs // of the session, in case the store loses it
	loaded  bool        // usage and create are known
	fence   int64
	attempt int
	memory  memory
	origin  origin
	out     *writer
	view    *chatrun.View
	wireID  string // upstream id, "" before the upstream has named it
}

// origin is how a run stands in the store.
type origin struct {
	sent   bool   // the upstream may have been called
	wireID string // under which id
	doomed bool   // it is only to be ended, by this node
}

type runContext struct {
	run     string
	profile string
	cancel  context.CancelCauseFunc
	out     *writer
}

func newRunner(s *session, g store.Guard, token string) *runner {
	return &runner{e: s.e, s: s, guard: g, token: token}
}

// start begins with an item under the runner's tenure. If the engine is closing,
// the item stays with the store for the next process.
func (r *runner) start(item *store.Item, row store.Row) {
	r.launch(func() {
		r.loop(item, row, r.execute)
	})
}

// startFailed ends an item without running it.
func (r *runner) startFailed(item *store.Item, cause string) {
	r.origin.doomed = true
	r.launch(func() {
		r.loop(item, store.Row{}, func(context.Context, *sink) Outcome {
			return Outcome{Failed: true, Error: cause, Stopped: true}
		})
	})
}

func (r *runner) launch(f func()) {
	r.e.mu.Lock()
	r.s.refs++
	r.e.userRuns[r.guard.Owner]++
	r.e.mu.Unlock()
	started := r.e.spawn(func() {
		f()
		r.leave()
	})
	if !started {
		r.leave()
	}
}

// leave gives the session back.
func (r *runner) leave() {
	r.s.box.do(func() {
		if r.s.runner == r {
			r.s.runner = nil
		}
	})
	r.e.mu.Lock()
	if r.e.userRuns[r.guard.Owner]--; r.e.userRuns[r.guard.Owner] <= 0 {
		delete(r.e.userRuns, r.guard.Owner)
	}
	if len(r.e.userRuns) == 0 {
		for _, done := range r.e.quiet {
			close(done)
		}
		r.e.quiet = nil
	}
	r.e.mu.Unlock()
	r.e.release(r.s)
}

func (e *Engine) runsOf(user string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.userRuns[user]
}

// load reads what the session was before this tenure.
func (r *runner) load(ctx context.Context) {
	if r.loaded {
		return
	}
	err := r.persist(ctx, func(ctx context.Context) error {
		head, err := r.e.head(ctx, r.s.sid)
		if err != nil {
			return err
		}
		r.usage, r.loaded = head.Usage, true
		r.create = store.Attrs{Source: head.Source, Model: head.Model, Provider: head.Provider, Title: head.Title, Preview: head.Preview}
		return nil
	})
	if err != nil {
		r.s.logger().Warn("usage of the session not known", zap.Error(err))
	}
}

// persist makes a read for the run. A store that may be away is asked again until it
// answers: the run waits for it.
func (r *runner) persist(ctx context.Context, read func(context.Context) error) error {
	for delay := waitFirst; ; delay = min(2*delay, waitMost) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := read(call)
		cancel()
		if !r.e.lossy() || !away(err) || pause(ctx, delay) != nil {
			return err
		}
	}
}

// loop runs the item and then what Finish pops, each with one ending.
func (r *runner) loop(item *store.Item, row store.Row, carry func(context.Context, *sink) Outcome) {
	for item != nil {
		r.item, r.row = item, row
		item, row = r.one(carry)
		carry = r.execute
	}
}

// one carries out one run, from its start to its ending.
func (r *runner) one(carry func(context.Context, *sink) Outcome) (*store.Item, store.Row) {
	ctx, cancel := context.WithCancelCause(r.e.ctx)
	defer cancel(nil)
	if r.view == nil {
		r.view = &chatrun.View{}
	}
	r.out = newWriter(r)
	r.remember([]store.NewRow{r.item.Row}, store.Patch{})
	r.current.Store(&runContext{run: r.item.Run, profile: r.item.Profile, cancel: cancel, out: r.out})
	r.heedAbort()
	if r.e.isDraining() {
		cancel(r.out.leavingCause(r.item.Profile))
	}
	began := time.Now()
	r.e.cfg.Metrics.RunStarted(r.item.Executor)
	k := &sink{r: r, began: began, recorded: map[string]string{}}
	outcome := r.carryOut(ctx, k, carry)
	cause := context.Cause(ctx)
	if r.out.left(outcome, cause) {
		r.out.close()
		r.current.Store(nil)
		r.leaveBehind()
		r.slot.Store(nil) // the run still has its place
		r.e.cfg.Metrics.RunEnded(r.item.Executor, "released", time.Since(began))
		r.forget()
		return nil, store.Row{}
	}
	r.freeSlot()
	k.closeTools()
	r.out.close()
	r.current.Store(nil)
	item, row, ended := r.finish(k, outcome, cause)
	r.e.cfg.Metrics.RunEnded(r.item.Executor, string(ended), time.Since(began))
	r.view, r.wireID, r.attempt, r.origin = nil, "", 0, origin{}
	r.forget()
	return item, row
}

// carryOut guards the engine against an executor that panics: one broken run must
// not take the process and everybody's chats with it.
func (r *runner) carryOut(ctx context.Context, k *sink, carry func(context.Context, *sink) Outcome) (out Outcome) {
	defer func() {
		if p := recover(); p != nil {
			r.s.logger().Error("executor panicked", zap.Any("panic", p), zap.Stack("stack"))
			out = Outcome{Failed: true, Error: "The server failed while it carried out this run"}
		}
	}()
	r.load(ctx)
	if ctx.Err() != nil {
		return Outcome{Failed: true, Stopped: true}
	}
	return carry(ctx, k)
}

// execute builds the turn and hands it to the executor of the item's profile.
func (r *runner) execute(ctx context.Context, k *sink) Outcome {
	_, x, err := r.e.cfg.Executors(r.item.Profile)
	if err != nil {
		return Outcome{Failed: true, Error: err.Error(), Stopped: true}
	}
	var turn Turn
	err = r.persist(ctx, func(ctx context.Context) (err error) {
		turn, err = r.turn(ctx)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{Failed: true, Stopped: true}
		}
		r.s.logger().Warn("turn not built", zap.Error(err))
		return Outcome{Failed: true, Error: "Earlier messages of this chat could not be loaded", Stopped: true}
	}
	if err := r.takeSlot(ctx, k); err != nil {
		return Outcome{Failed: true, Error: textNoSlot, Stopped: true}
	}
	return x.Run(ctx, turn, k)
}

// turn collects what the executor needs.
func (r *runner) turn(ctx context.Context) (Turn, error) {
	var opts runOptions
	if err := json.Unmarshal(r.item.Options, &opts); err != nil {
		return Turn{}, fmt.Errorf("run options: %w", err)
	}
	row, err := chatrun.DecodeRow(r.item.Row.Data)
	if err != nil {
		return Turn{}, fmt.Errorf("user row: %w", err)
	}
	history, err := r.e.history(ctx, r.s.sid, r.row.ID)
	if err != nil {
		return Turn{}, err
	}
	return Turn{
		SessionID: r.s.sid, RunKey: r.item.Run, Profile: r.item.Profile, Input: chatrun.StoredInput(row.Content),
		Instructions: instructions(opts.Instructions), History: history, Model: opts.Model, Provider: opts.Provider,
	}, nil
}

// abort stops a run of this tenure. It is called from any goroutine, any number
// of times, and reports whether it is the first time for this run.
func (r *runner) abort(run string) bool {
	before := r.aborted.Swap(&run)
	r.heedAbort()
	return before == nil || *before != run
}

// runs reports whether a run is the current one.
func (r *runner) runs(run string) bool {
	now := r.current.Load()
	return now != nil && now.run == run
}

// heedAbort stops the current run if it is the one that was aborted.
func (r *runner) heedAbort() {
	run, now := r.aborted.Load(), r.current.Load()
	if run != nil && now != nil && now.run == *run {
		now.cancel(errAborted)
	}
}

// cancel ends the current run for a cause.
func (r *runner) cancel(cause error) {
	if now := r.current.Load(); now != nil {
		now.cancel(cause)
	}
}

// renewNow has the store asked at once whether the current run is still ours.
func (r *runner) renewNow() {
	if now := r.current.Load(); now != nil {
		now.out.renewNow()
	}
}

// isAborted reports whether the run at hand was aborted.
func (r *runner) isAborted() bool {
	run := r.aborted.Load()
	return run != nil && *run == r.item.Run
}

// sealText makes a row of the open text, if there is any.
func (r *runner) sealText(reason string) []store.NewRow {
	text, reasoning := r.view.TakeText()
	if strings.TrimSpace(text) == "" && reasoning == "" {
		return nil
	}
	row := chatrun.RowData{Role: string(store.RoleAssistant), Content: text, Reasoning: reasoning, FinishReason: reason}
	return []store.NewRow{{Role: store.RoleAssistant, Data: row.Encode()}}
}

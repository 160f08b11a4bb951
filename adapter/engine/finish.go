package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// emptyAnswer is the cause of a run that succeeded with nothing (RUN-04).
const emptyAnswer = "The gateway returned an empty answer"

// maxRestored bounds how often one ending is tried again behind a loss of the store.
const maxRestored = 3

// finish writes the one ending of the run and answers the item that has begun
// behind it (contract 5.4). All text has been logged by now.
func (r *runner) finish(k *sink, out Outcome, cause error) (*store.Item, store.Row, store.State) {
	if errors.Is(cause, errLost) || r.e.ctx.Err() != nil {
		return nil, store.Row{}, "lost"
	}
	r.load(r.e.ctx)
	state := r.judge(k, &out, cause)
	open := openText{text: r.view.Text(), reasoning: r.view.Reasoning()}
	if out.Discard && state == store.StateFailed {
		open = openText{}
	}
	for restored := 0; ; {
		args := r.finishArgs(open, out, state)
		res, err := r.callFinish(args)
		if err != nil {
			r.s.logger().Error("ending not stored", zap.Error(err))
			return nil, store.Row{}, "lost"
		}
		switch res.Code {
		case store.Aborting:
			// The upstream had ended by itself when the stop was recorded.
			state, out.Stopped = store.StateAborted, out.Stopped || !out.Failed
			continue
		case store.Lost, store.Back, store.Fenced, store.Ended:
			if restored++; restored <= maxRestored && r.restored(res.OwnerResult, args.Rows) {
				continue
			}
		case store.Bad:
			if state == store.StateAborted && r.e.recordAbort(r.s.sid, r.guard, r.item.Run, "") {
				continue
			}
			state, out.Error = store.StateFailed, interruptedText
			continue
		}
		return r.finished(args, res, out, state)
	}
}

// judge decides what the ending is.
func (r *runner) judge(k *sink, out *Outcome, cause error) store.State {
	if errors.Is(cause, ErrDetached) {
		// Ended by itself all the same, or too late to be left to another node.
		if cause = nil; out.Failed {
			cause = errRestarting
		}
	}
	switch {
	case errors.Is(cause, errAborted):
		return store.StateAborted
	case cause != nil:
		out.Failed, out.Error = true, userText(cause)
	case !out.Failed && !r.view.Streamed() && !k.any && strings.TrimSpace(out.Output) == "":
		out.Failed, out.Error = true, emptyAnswer
	}
	if !out.Failed {
		return store.StateCompleted
	}
	if out.Error == "" {
		out.Error = "The run failed"
	}
	return store.StateFailed
}

// userText is what a user reads of a cause.
func userText(cause error) string {
	switch {
	case errors.Is(cause, errRestarting):
		return "The server is restarting; the answer is incomplete"
	case errors.Is(cause, errTooLong):
		return "The answer is too long (over 16 MiB of text)"
	case errors.Is(cause, errTooManyTools):
		return "The run has too many tools open at once"
	case errors.Is(cause, errOutage):
		return "The server's storage was away for too long; the answer is incomplete"
	case errors.Is(cause, errLostByStore):
		return "The server's storage has lost a part of this run; what is left of the answer is kept"
	default:
		return "The run could not be stored; its text so far is kept"
	}
}

type openText struct{ text, reasoning string }

// finishArgs builds the last rows and events: usage, then the end (CR-42, CR-44).
func (r *runner) finishArgs(open openText, out Outcome, state store.State) store.FinishArgs {
	text := open.text
	if !r.view.Streamed() && strings.TrimSpace(text) == "" {
		text = out.Output
	}
	tokens := tokensOf(r.usage.Add(out.Usage))
	args := store.FinishArgs{
		Batch: store.Batch{
			SID: r.s.sid, Token: r.token, Run: r.item.Run, Seq: r.seq + 1, Stamp: newStamp(), TTL: store.LeaseTTL,
			Rows: finalRows(text, open.reasoning, state),
			Events: []store.NewEntry{{
				Kind: store.KindEvent, Name: chatrun.EventUsageUpdated, Payload: chatrun.UsageUpdated(r.s.sid, tokens),
			}},
		},
		Outcome: state, Usage: out.Usage, Node: r.e.cfg.Node, End: r.ending(out, state, text, tokens),
	}
	return args
}

// finalRows are the rows of the text that is still open.
func finalRows(text, reasoning string, state store.State) []store.NewRow {
	reason := map[store.State]string{
		store.StateCompleted: finishStop, store.StateFailed: finishError, store.StateAborted: finishAborted,
	}[state]
	if strings.TrimSpace(text) == "" && reasoning == "" {
		return nil
	}
	row := chatrun.RowData{Role: string(store.RoleAssistant), Content: text, Reasoning: reasoning, FinishReason: reason}
	return []store.NewRow{{Role: store.RoleAssistant, Data: row.Encode()}}
}

func (r *runner) ending(out Outcome, state store.State, text string, tokens chatrun.Tokens) store.NewEntry {
	en := store.NewEntry{Kind: store.KindEnd}
	id := r.wireID
	if state == store.StateAborted {
		en.Name, en.Payload = chatrun.EventAbortCompleted, chatrun.AbortCompleted(r.s.sid, id, out.Stopped)
		return en
	}
	end := chatrun.Ending{RunID: id, Output: out.Output, Tokens: tokens, Error: out.Error}
	if end.Output == "" {
		end.Output = text
	}
	if out.Usage.Input > 0 || out.Usage.Output > 0 {
		end.Usage = &chatrun.RunUsage{
			InputTokens: out.Usage.Input, OutputTokens: out.Usage.Output, TotalTokens: out.Usage.Input + out.Usage.Output,
		}
	}
	if state == store.StateFailed {
		en.Name, en.Payload = chatrun.EventRunFailed, chatrun.RunFailed(r.s.sid, end)
	} else {
		en.Name, en.Payload = chatrun.EventRunCompleted, chatrun.RunCompleted(r.s.sid, end)
	}
	return en
}

// callFinish repeats the call until the store answers. The embedded store itself
// decides when an ending that cannot be committed takes effect in memory.
// One that can be away is waited for without end: no other ending is possible.
func (r *runner) callFinish(args store.FinishArgs) (store.FinishResult, error) {
	lossy := r.e.lossy()
	deadline := time.Now().Add(2 * finishTimeout)
	generation := r.e.generation()
	for delay := resendFirst; ; delay = min(2*delay, resendMost) {
		if g := r.e.generation(); g != generation {
			args.Stamp, generation = newStamp(), g // as of a batch
		}
		args.Pop = nil
		if r.e.mayBegin() {
			args.Pop = r.e.pops(r.item.Executor)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.e.ctx), finishTimeout+callTimeout)
		res, err := r.e.cfg.Store.Finish(ctx, args)
		cancel()
		if err == nil || !lossy && time.Now().After(deadline) {
			return res, err
		}
		if lossy {
			if pause(r.e.ctx, delay) != nil {
				return res, err
			}
			continue
		}
		time.Sleep(delay)
	}
}

// finished acts on the store's answer to the ending.
func (r *runner) finished(args store.FinishArgs, res store.FinishResult, out Outcome, state store.State) (*store.Item, store.Row, store.State) {
	switch res.Code {
	case store.Idle, store.Next, store.Waiting:
		r.keepFinish(args)
	}
	switch res.Code {
	case store.Next:
		r.seq++
		r.usage = r.usage.Add(out.Usage)
		r.s.box.do(r.s.follow)
		return res.Item, res.Row, state
	case store.Waiting:
		r.e.handOut(r.s.sid, r.item.Executor)
	case store.Idle, store.Purged:
	default:
		r.s.logger().Warn("run ended elsewhere", zap.String("answer", string(res.Code)))
		state = "lost"
	}
	r.s.box.do(r.s.follow)
	return nil, store.Row{}, state
}

// arm leaves work for whoever can take it, at once.
func (e *Engine) arm(sid string) {
	ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
	defer cancel()
	if err := e.cfg.Store.Arm(ctx, sid, 0); err != nil {
		e.log.Warn("waiting work not announced; the next sweep finds it", zap.String("session", sid), zap.Error(err))
	}
}

package responses

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Waiting for a gateway that is full or draining.
const (
	waitLimit = 5 * time.Minute
	waitFirst = time.Second
	waitMost  = 30 * time.Second
)

// textWaiting is what users read while the gateway is busy.
const textWaiting = "The Hermes gateway is busy; this message waits for its turn"

// deleteTimeout bounds the removal of a stored response, on the side.
const deleteTimeout = 3 * time.Second

// Observer receives what metrics count; it may be nil.
type Observer interface {
	FirstByte(d time.Duration)
	UpstreamError(class string)
}

// Config is what an executor is made of.
type Config struct {
	Client *gateway.Client
	// Model answers the model to send for the one a client asked for; "" sends none.
	Model    func(requested string) string
	Logger   *zap.Logger
	Observer Observer
}

// Executor implements engine.Executor and engine.Detacher. It keeps no state of
// runs and is safe for concurrent use.
type Executor struct{ cfg Config }

// New makes an executor.
func New(cfg Config) *Executor { return &Executor{cfg: cfg} }

// Run implements engine.Executor.
func (x *Executor) Run(ctx context.Context, turn engine.Turn, sink engine.Sink) engine.Outcome {
	req := gateway.ResponsesRequest{
		Input: wireInput(turn.Input), Instructions: turn.Instructions,
		History: wireHistory(turn.History), Model: x.cfg.Model(turn.Model),
	}
	give := time.Now().Add(waitLimit)
	for delay := waitFirst; ; delay = min(2*delay, waitMost) {
		out, failure := x.attempt(ctx, req, sink)
		if failure == nil || !busy(failure) || time.Now().After(give) {
			return out
		}
		if err := sink.Refused(ctx); err != nil {
			return engine.Outcome{Failed: true, Stopped: true}
		}
		sink.Notice("waiting", textWaiting)
		if !wait(ctx, failure.RetryAfter, delay) {
			return engine.Outcome{Failed: true, Stopped: true}
		}
	}
}

// busy reports whether the gateway refused the turn only for the moment. One that
// cannot be reached is no reason to wait: the user is told at once.
func busy(failure *gateway.Error) bool {
	return failure.Class == gateway.ClassRateLimited || failure.Class == gateway.ClassDraining
}

// wait sleeps for as long as the gateway asked, else for delay with jitter.
func wait(ctx context.Context, asked, delay time.Duration) bool {
	if asked > 0 {
		delay = min(asked, waitLimit)
	}
	timer := time.NewTimer(delay/2 + rand.N(delay/2+1))
	if asked > 0 {
		timer.Reset(delay + rand.N(delay/4+1))
	}
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt posts the turn once. The failure is set if the turn gave no whole
// answer.
func (x *Executor) attempt(ctx context.Context, req gateway.ResponsesRequest, sink engine.Sink) (engine.Outcome, *gateway.Error) {
	if err := sink.Sending(ctx); err != nil {
		return engine.Outcome{Failed: true, Stopped: true, Error: "The run could not be stored; it was not sent"}, nil
	}
	m := &mapper{sink: sink, observer: x.cfg.Observer, sent: time.Now(), keep: x.cfg.Client.StoresResponses()}
	res, err := x.cfg.Client.Responses(ctx, req, m)
	if err != nil {
		return x.failed(ctx, m, res, gateway.AsError(err))
	}
	x.forget(ctx, res.ResponseID)
	return m.completed(res), nil
}

// failed ends a turn without a whole answer; a lost stream is recovered where the
// gateway keeps responses (T31).
func (x *Executor) failed(ctx context.Context, m *mapper, res gateway.Outcome, failure *gateway.Error) (engine.Outcome, *gateway.Error) {
	if m.keep && m.responseID != "" && recoverable(failure) && ctx.Err() == nil {
		if out, ok := x.recover(ctx, m); ok {
			return out, nil
		}
	}
	if detached(ctx) {
		return engine.Outcome{Failed: true, Usage: usageOf(res.Usage)}, failure
	}
	x.forget(ctx, m.responseID)
	if x.cfg.Observer != nil {
		x.cfg.Observer.UpstreamError(failure.Class.String())
	}
	if ctx.Err() != nil {
		return engine.Outcome{Failed: true, Usage: usageOf(res.Usage)}, failure
	}
	return engine.Outcome{
		Failed: true, Error: failure.Text, Usage: usageOf(res.Usage), Model: res.Model,
		Discard: res.Masked, Stopped: !recoverable(failure),
	}, failure
}

// recoverable reports whether the turn may still be going on upstream.
func recoverable(failure *gateway.Error) bool {
	return failure.Class == gateway.ClassLost || failure.Class == gateway.ClassSilent
}

// recover completes a turn from the stored response.
func (x *Executor) recover(ctx context.Context, m *mapper) (engine.Outcome, bool) {
	res, err := x.cfg.Client.Recover(ctx, m.responseID)
	if err != nil {
		x.cfg.Logger.Info("lost stream not recovered", zap.Error(err))
		return engine.Outcome{}, false
	}
	x.forget(ctx, m.responseID)
	if rest, ok := strings.CutPrefix(res.Text, m.text.String()); ok && rest != "" {
		m.sink.Text(rest)
	}
	return m.completed(res), true
}

// Reattach implements engine.Reattacher: what another process began is completed
// from the stored response, if there is one.
func (x *Executor) Reattach(ctx context.Context, _ engine.Turn, wireID, sofar string, sink engine.Sink) (engine.Outcome, bool) {
	if !x.cfg.Client.StoresResponses() {
		return engine.Outcome{}, false
	}
	m := &mapper{sink: sink, keep: true, responseID: wireID}
	m.text.WriteString(sofar)
	return x.recover(ctx, m)
}

// CanReattach implements engine.Detacher: a stored response can be had by another
// node, but a gateway may stop a turn whose reader leaves.
func (x *Executor) CanReattach(string) (ok, unharmed bool) {
	return x.cfg.Client.StoresResponses(), false
}

// detached reports whether another node goes on with the turn.
func detached(ctx context.Context) bool { return errors.Is(context.Cause(ctx), engine.ErrDetached) }

// forget deletes a stored response that is done with.
func (x *Executor) forget(ctx context.Context, responseID string) {
	if !x.cfg.Client.StoresResponses() || responseID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := x.cfg.Client.DeleteResponse(ctx, responseID); err != nil {
		x.cfg.Logger.Debug("stored response not deleted", zap.Error(err))
	}
}

func usageOf(u gateway.Usage) store.Usage {
	return store.Usage{
		Input: u.InputTokens, Output: u.OutputTokens, CacheRead: u.CacheReadTokens, CacheWrite: u.CacheWriteTokens,
		Reasoning: u.ReasoningTokens, Context: max(u.TotalTokens, u.InputTokens+u.OutputTokens),
	}
}

// String names the executor in logs.
func (x *Executor) String() string { return fmt.Sprintf("responses(%s)", x.cfg.Client.BaseURL().Host) }

package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

var errCallTimeout = errors.New("gateway call timed out")

const (
	recoverFirstPoll = 500 * time.Millisecond
	recoverMaxPoll   = 2 * time.Second
	recoverMaxMisses = 5
)

// call makes one bounded request and returns its body, at most limit bytes.
func (c *Client) call(parent context.Context, r request, limit int64, timeout time.Duration) ([]byte, *Error) {
	ctx, cancel := context.WithTimeoutCause(parent, timeout, errCallTimeout)
	defer cancel()
	r.accept = "application/json"
	resp, failure := c.send(ctx, r)
	if failure != nil {
		return nil, failure
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return nil, c.streamError(ctx, err)
	}
	if int64(len(body)) > limit {
		return nil, &Error{Class: ClassNotAGateway, Status: resp.StatusCode, Text: "The reply of the gateway address is too large", Sent: true}
	}
	return body, nil
}

// Recover finishes a turn whose stream was lost, from the response that the
// gateway stored (Config.Store). It polls until the response leaves
// in_progress, at most for the recover timeout (T31, GW-51). The outcome's
// Text is the whole text of the turn, including what was streamed. Completed
// and a nil error mean the whole answer; otherwise Text is what there is.
func (c *Client) Recover(parent context.Context, responseID string) (Outcome, error) {
	lost := &Error{Class: ClassLost, Text: lostText, Sent: true}
	if responseID == "" {
		return Outcome{}, lost
	}
	ctx, cancel := context.WithTimeoutCause(parent, c.cfg.RecoverTimeout, errCallTimeout)
	defer cancel()
	misses := 0
	for wait := recoverFirstPoll; ; wait = min(2*wait, recoverMaxPoll) {
		body, failure := c.call(ctx, request{method: http.MethodGet, path: responsePath(responseID)}, c.cfg.MaxLine, callTimeout)
		switch {
		case failure == nil:
			if outcome, err, over := c.stored(body); over {
				return outcome, err
			}
		case !passing(failure), ctx.Err() != nil:
			return Outcome{ResponseID: responseID}, recoverError(parent, failure, lost)
		default:
			if misses++; misses >= recoverMaxMisses {
				return Outcome{ResponseID: responseID}, failure
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Outcome{ResponseID: responseID}, recoverError(parent, c.endedBy(ctx, ctx.Err()), lost)
		}
	}
}

// passing reports whether polling may go on after this failure.
func passing(e *Error) bool {
	switch e.Class {
	case ClassUnreachable, ClassSilent, ClassLost, ClassServerError, ClassDraining, ClassRateLimited:
		return true
	default:
		return false
	}
}

// recoverError says "lost" for what the gateway no longer knows and for our own
// limit, and keeps the reason otherwise.
func recoverError(parent context.Context, failure, lost *Error) error {
	if parent.Err() == nil && (failure.Class == ClassNotFound || failure.Class == ClassSilent) {
		return lost
	}
	return failure
}

// stored reads a stored response; over is false while it is in progress.
func (c *Client) stored(body []byte) (outcome Outcome, err error, over bool) {
	m := newMapper(nil, c.Redact)
	m.envelope(body)
	switch status := string(rawString(member(body, "status"))); status {
	case "in_progress", "queued":
		return m.outcome, nil, false
	case "completed":
		m.outcome.Kind = Completed
		return m.outcome, nil, true
	case "incomplete":
		if !m.outcome.Usage.IsZero() {
			m.outcome.Kind = Completed
			return m.outcome, nil, true
		}
		return m.outcome, &Error{Class: ClassLost, Text: lostText, Sent: true}, true
	case "failed", "cancelled":
		m.fail(ClassProviderFailed, m.failureText(member(body, "error"), nil))
		return m.outcome, m.err, true
	default:
		return m.outcome, &Error{Class: ClassNotAGateway, Text: "The stored response is not readable", Sent: true}, true
	}
}

// DeleteResponse removes a stored response. One that is already gone is no error.
func (c *Client) DeleteResponse(ctx context.Context, responseID string) error {
	if responseID == "" {
		return nil
	}
	_, failure := c.call(ctx, request{method: http.MethodDelete, path: responsePath(responseID)}, maxErrorBody, callTimeout)
	if failure == nil || failure.Class == ClassNotFound {
		return nil
	}
	return failure
}

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// retryAfter is when a client may ask again while the edge is not ready, in
// seconds.
const retryAfter = 1

// apiError is an answer that is no success.
type apiError struct {
	status int
	code   string
	text   string
	allow  string // 405: the methods that are
}

// Error implements error.
func (e *apiError) Error() string { return e.text }

var (
	errNoRoute      = &apiError{status: http.StatusNotFound, code: "not_found", text: "There is nothing at this address"}
	errNoSession    = &apiError{status: http.StatusNotFound, code: "not_found", text: "Session not found"}
	errOrigin       = &apiError{status: http.StatusForbidden, code: "origin_denied", text: "Requests from this web page are not accepted"}
	errAdmin        = &apiError{status: http.StatusForbidden, code: "admin_required", text: "This is for admin users only"}
	errUnauthorized = &apiError{status: http.StatusUnauthorized, code: "unauthorized", text: auth.ErrFailed.Error()}
	errProfile      = &apiError{status: http.StatusForbidden, code: "profile_denied", text: auth.ErrProfile.Error()}
	errBusy         = &apiError{status: http.StatusConflict, code: "busy", text: "The session is busy, try again in a moment"}
	errTooLarge     = &apiError{status: http.StatusRequestEntityTooLarge, code: "too_large", text: "The request body is too large"}
	errNotReady     = &apiError{status: http.StatusServiceUnavailable, code: "not_ready", text: "The service is not ready, try again in a moment"}
	errInternal     = &apiError{status: http.StatusInternalServerError, code: "internal", text: "The request failed, the server's log says why"}
)

func badRequest(text string) *apiError {
	return &apiError{status: http.StatusBadRequest, code: "bad_request", text: text}
}

func errMethod(allow string) *apiError {
	return &apiError{status: http.StatusMethodNotAllowed, code: "method_not_allowed", text: "This method is not allowed here", allow: allow}
}

// fail answers with an error and logs those that nobody expects.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	answer := answerTo(err)
	if answer == errInternal && r.Context().Err() == nil {
		a.cfg.Logger.Error("HTTP API request failed", zap.String("method", r.Method), zap.Error(err))
	}
	writeError(w, answer)
}

// answerTo finds the answer for an error of any layer.
func answerTo(err error) *apiError {
	var own *apiError
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, auth.ErrFailed):
		return errUnauthorized
	case errors.Is(err, auth.ErrProfile), errors.Is(err, engine.ErrProfileDenied):
		return errProfile
	case errors.Is(err, engine.ErrNotFound):
		return errNoSession
	case errors.Is(err, engine.ErrBusy):
		return errBusy
	case errors.Is(err, engine.ErrBadRequest):
		return badRequest(strings.TrimPrefix(err.Error(), engine.ErrBadRequest.Error()+": "))
	case errors.Is(err, engine.ErrUnavailable), errors.Is(err, auth.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return errNotReady
	default:
		return errInternal
	}
}

func writeError(w http.ResponseWriter, e *apiError) {
	h := w.Header()
	switch e.status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="hermes"`)
	case http.StatusMethodNotAllowed:
		h.Set("Allow", e.allow)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	case http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close")
	}
	body, err := json.Marshal(struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}{e.text, e.code})
	if err != nil {
		panic("httpapi: two strings do not marshal: " + err.Error())
	}
	writeBody(w, e.status, body)
}

// writeJSON answers with a value. It is encoded first, so that a failure can still
// be told.
func writeJSON(w http.ResponseWriter, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	writeBody(w, status, body)
	return nil
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	body = append(body, '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	// The client may be gone; nobody is left to be told.
	_, _ = w.Write(body)
}

package engine

import "errors"

// Errors of the methods behind the HTTP API. Callers test for them with
// errors.Is. The text of an error that wraps ErrBadRequest is shown to the user.
var (
	ErrNotFound      = errors.New("session not found") // also for a session the principal may not open
	ErrProfileDenied = errors.New("profile access denied")
	ErrBusy          = errors.New("the session is busy")
	ErrUnavailable   = errors.New("the service is not ready")
	ErrBadRequest    = errors.New("bad request")
)

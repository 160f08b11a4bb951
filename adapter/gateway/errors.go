package gateway

import (
	"errors"
	"time"
)

// Class is the cause of a failed call. Its string is a stable metric label.
type Class uint8

// Causes of failure.
const (
	ClassUnknown        Class = iota
	ClassUnauthorized         // 401: the key between edge and gateway is wrong or missing
	ClassUnreachable          // no connection
	ClassRateLimited          // 429: the gateway's work cap is reached
	ClassDraining             // 503: the gateway is draining or overloaded
	ClassBadRequest           // 400 and other refusals of the request
	ClassForbidden            // 403
	ClassNotFound             // 404 of a known route
	ClassUnknownProfile       // 404 of a profile prefix
	ClassTooLarge             // the request is over the gateway's body limit, or a turn over ours
	ClassServerError          // 5xx
	ClassNotAGateway          // HTML, a redirect, an empty or foreign body
	ClassLost                 // the stream ended without a terminal event (T19)
	ClassSilent               // no byte for the read timeout
	ClassNoProgress           // only keep-alives for the progress timeout
	ClassLineTooLong          // one line of the stream is over the ceiling
	ClassCanceled             // the caller's context ended
	ClassProviderFailed       // the gateway reported a failed turn
	ClassMasked               // the gateway reported success for a failed turn (T3)
	ClassEmptyAnswer          // success without any text or tool
	classCount
)

var classLabels = [classCount]string{
	ClassUnknown:        "unknown",
	ClassUnauthorized:   "unauthorized",
	ClassUnreachable:    "unreachable",
	ClassRateLimited:    "rate_limited",
	ClassDraining:       "draining",
	ClassBadRequest:     "bad_request",
	ClassForbidden:      "forbidden",
	ClassNotFound:       "not_found",
	ClassUnknownProfile: "unknown_profile",
	ClassTooLarge:       "too_large",
	ClassServerError:    "server_error",
	ClassNotAGateway:    "not_a_gateway",
	ClassLost:           "lost",
	ClassSilent:         "silent",
	ClassNoProgress:     "no_progress",
	ClassLineTooLong:    "line_too_long",
	ClassCanceled:       "canceled",
	ClassProviderFailed: "provider_failed",
	ClassMasked:         "masked",
	ClassEmptyAnswer:    "empty_answer",
}

// String returns the metric label of the class.
func (c Class) String() string {
	if c >= classCount {
		return classLabels[ClassUnknown]
	}
	return classLabels[c]
}

// Error is the failure of a gateway call.
type Error struct {
	Class  Class
	Status int // HTTP status, 0 if no reply came
	// Text is one line for users: redacted, bounded, valid UTF-8.
	Text string
	// RetryAfter is what the gateway asked for, 0 if it named no time.
	RetryAfter time.Duration
	// Sent says that the request may have reached the gateway, so that it must
	// not be sent again (GW-44) unless Retryable says otherwise.
	Sent bool

	cause error
}

// Error returns the user text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the technical cause. It is not redacted: never show or log it.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the gateway certainly did not take the request, and
// the same request may later be taken: no connection, 429 or 503. The caller
// waits RetryAfter, or backs off with jitter when that is zero (GW-6).
func (e *Error) Retryable() bool {
	switch e.Class {
	case ClassRateLimited, ClassDraining:
		return true
	case ClassUnreachable:
		return !e.Sent
	default:
		return false
	}
}

// AsError returns the *Error in err's chain, or nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

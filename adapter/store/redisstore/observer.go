package redisstore

import (
	"errors"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Classes of errors that an Observer is told.
const (
	ClassNone        = ""            // no error; a refusal is none
	ClassUnavailable = "unavailable" // certainly not executed
	ClassUnknown     = "unknown"     // perhaps executed
	ClassTooNew      = "too_new"
)

// Observer is told what a Store does, for metrics. Its methods are called from
// many goroutines at once and must not block.
type Observer interface {
	// Call: a script was called and answered, or failed with an error of that class.
	// A read of several sessions at once is one call.
	Call(script string, took time.Duration, class string)
	// Pipeline: calls were sent together. A call that is sent alone counts as one.
	Pipeline(calls int)
	// Hint: a hint was received, so long after it was published; negative: unknown.
	Hint(lag time.Duration)
	// Breaker: a server does not answer any more, or answers again.
	Breaker(addr string, open bool)
	// Generation: acknowledged writes may have been lost.
	Generation(n uint64)
	// Replicated: a durable write was, or was not, confirmed by a replica in time.
	Replicated(confirmed bool)
}

// unobserved is the Observer of a Store that nobody watches.
type unobserved struct{}

func (unobserved) Call(string, time.Duration, string) {}
func (unobserved) Pipeline(int)                       {}
func (unobserved) Hint(time.Duration)                 {}
func (unobserved) Breaker(string, bool)               {}
func (unobserved) Generation(uint64)                  {}
func (unobserved) Replicated(bool)                    {}

func class(err error) string {
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, store.ErrUnavailable):
		return ClassUnavailable
	case errors.Is(err, store.ErrTooNew):
		return ClassTooNew
	}
	return ClassUnknown
}

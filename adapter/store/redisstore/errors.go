package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

var (
	errOpen   = errors.New("redis does not answer")
	errClosed = fmt.Errorf("%w: store is closed", store.ErrUnavailable)
	errReply  = fmt.Errorf("%w: redis gave an answer that was not expected", store.ErrUnknown)
)

// refusals are the error codes of a server that has not executed the command. A
// script's first write meets those about memory and replicas, or none of it does.
var refusals = []string{
	"LOADING", "READONLY", "MISCONF", "CLUSTERDOWN", "TRYAGAIN", "OOM", "NOREPLICAS", "MASTERDOWN", "BUSY",
	"REPLACED", "NOAUTH", "WRONGPASS", "NOPERM", "MOVED", "ASK", "CROSSSLOT",
}

// mapError sorts errors into those of the contract (section 4).
func mapError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var reply redis.Error
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return err
	case errors.As(err, &reply):
		return mapReply(reply)
	case errors.Is(err, errOpen), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), isDial(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, redis.ErrClosed):
		return errClosed
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w: %w", store.ErrUnknown, err, cause)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, err)
}

// mapReply sorts what a server answered. Before version 7 the code of an error
// inside a script stands in the middle of the text.
func mapReply(reply redis.Error) error {
	text := reply.Error()
	if strings.Contains(text, "TOONEW") {
		return store.ErrTooNew
	}
	for _, code := range refusals {
		if strings.HasPrefix(text, code) || strings.Contains(text, ": -"+code+" ") {
			return fmt.Errorf("%w: redis: %w", store.ErrUnavailable, reply)
		}
	}
	return fmt.Errorf("%w: redis: %w", store.ErrUnknown, reply)
}

// isDial reports whether there was no connection to send anything over.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	drainTime  = 250 * time.Millisecond
	drainBytes = 64 << 10
)

var errDrained = errors.New("stream is over")

// stream is one open event stream with its timers.
type stream struct {
	client   *Client
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *watchdog
	resp     *http.Response
	reader   *SSEReader
}

// openStream sends a request whose reply is an event stream. The caller must
// call close.
func (c *Client) openStream(parent context.Context, r request) (*stream, *Error) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &stream{client: c, ctx: ctx, cancel: cancel}
	s.watchdog = startWatchdog(c.cfg.ReadTimeout, c.cfg.ProgressTimeout, cancel)
	r.accept = "text/event-stream"
	resp, err := c.send(ctx, r)
	if err == nil {
		err = c.checkStream(resp)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.resp = resp
	s.watchdog.life()
	s.watchdog.event()
	s.reader = NewSSEReader(watchedReader{resp.Body, s.watchdog}, c.cfg.MaxLine)
	return s, nil
}

// next returns the next frame. Every frame that is no comment is progress.
func (s *stream) next() (Frame, *Error) {
	frame, err := s.reader.Next()
	if err != nil {
		return Frame{}, s.client.streamError(s.ctx, err)
	}
	if !frame.Comment {
		s.watchdog.event()
	}
	return frame, nil
}

// drain reads a finished stream to its end for a moment, so that the gateway
// sees an orderly end (a cut here can make it store the turn as incomplete)
// and the connection can serve the next turn.
func (s *stream) drain() {
	timer := time.AfterFunc(drainTime, func() { s.cancel(errDrained) })
	defer timer.Stop()
	// What follows a terminal event does not matter, nor does how it ends.
	_, _ = io.CopyN(io.Discard, s.resp.Body, drainBytes)
}

func (s *stream) close() {
	s.watchdog.stop()
	if s.resp != nil {
		s.resp.Body.Close()
	}
	s.cancel(errDrained)
}

package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errSilent     = errors.New("no byte from the gateway within the read timeout")
	errNoProgress = errors.New("only keep-alives from the gateway within the progress timeout")
)

// watchdog ends a stream that is silent, or that only keeps alive, for too
// long. Signs of life are two stores; the timer looks at them when it fires.
type watchdog struct {
	silence, progress time.Duration
	cancel            context.CancelCauseFunc
	start             time.Time
	byteAt, eventAt   atomic.Int64 // nanoseconds since start

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func startWatchdog(silence, progress time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{silence: silence, progress: progress, cancel: cancel, start: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(min(silence, progress), w.check)
	return w
}

func (w *watchdog) check() {
	now := time.Since(w.start)
	silent := time.Duration(w.byteAt.Load()) + w.silence - now
	stuck := time.Duration(w.eventAt.Load()) + w.progress - now
	switch {
	case silent <= 0:
		w.cancel(errSilent)
	case stuck <= 0:
		w.cancel(errNoProgress)
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.stopped {
			w.timer.Reset(min(silent, stuck))
		}
	}
}

// life notes that bytes came.
func (w *watchdog) life() { w.byteAt.Store(int64(time.Since(w.start))) }

// event notes progress; the bytes it was made of were noted just before.
func (w *watchdog) event() { w.eventAt.Store(w.byteAt.Load()) }

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// watchedReader reports every read that brought bytes.
type watchedReader struct {
	io.Reader
	watchdog *watchdog
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.watchdog.life()
	}
	return n, err
}

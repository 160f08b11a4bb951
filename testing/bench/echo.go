package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	echoBuffer  = 4096
	warmUpLimit = 20 * time.Second
)

// echoLoad is B3: every connection sends an event with an acknowledgement id,
// waits for the acknowledgement, which carries the text back, and goes on.
type echoLoad struct {
	connections int
	size        int   // bytes of the text
	warmUp      int64 // messages before the window: enough for a just-in-time compiler
	hold        time.Duration
}

func (l echoLoad) measure(ctx context.Context, t *target) (measurement, error) {
	wires, err := l.connect(ctx, t.addr)
	defer func() {
		for _, w := range wires {
			w.abandon()
		}
	}()
	if err != nil {
		return nil, err
	}
	var (
		messages atomic.Int64
		over     atomic.Bool
		delays   histogram
		group    errgroup.Group
		m        = measurement{}
		text     = strings.Repeat("x", l.size)
	)
	for _, w := range wires {
		group.Go(func() error {
			e := echoer{wire: w, text: text}
			for !over.Load() {
				start := time.Now()
				if err := e.turn(); err != nil {
					return err
				}
				delays.add(time.Since(start))
				messages.Add(1)
			}
			return nil
		})
	}
	if err = reach(ctx, &messages, l.warmUp); err == nil {
		delays.on.Store(true)
		err = window(ctx, t, l.hold, &messages, m)
		delays.on.Store(false)
	}
	over.Store(true)
	if ended := group.Wait(); err == nil {
		err = ended
	}
	delays.into(m)
	return m, err
}

// reach waits until the counter stands at n, for a limited time.
func reach(ctx context.Context, counter *atomic.Int64, n int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, warmUpLimit, fmt.Errorf("fewer than %d messages in %s of warming up", n, warmUpLimit))
	defer cancel()
	for counter.Load() < n {
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

func (l echoLoad) connect(ctx context.Context, addr string) ([]*wire, error) {
	wires := make([]*wire, 0, l.connections)
	for range l.connections {
		if err := ctx.Err(); err != nil {
			return wires, err
		}
		w, err := dialWire(addr, echoBuffer)
		if err != nil {
			return wires, err
		}
		wires = append(wires, w)
		if err := w.join("/"); err != nil {
			return wires, err
		}
		if err := w.SetDeadline(time.Now().Add(l.hold + warmUpLimit + dialTimeout)); err != nil {
			return wires, err
		}
	}
	return wires, nil
}

// echoer takes turns on one connection.
type echoer struct {
	wire   *wire
	text   string
	id     int64
	packet []byte
	answer []byte
}

func (e *echoer) turn() error {
	e.id++
	e.packet = strconv.AppendInt(append(e.packet[:0], "42"...), e.id, 10)
	e.packet = append(e.packet, `["message-with-ack","`...)
	e.packet = append(append(e.packet, e.text...), `"]`...)
	e.answer = strconv.AppendInt(append(e.answer[:0], "43"...), e.id, 10)
	e.answer = append(append(append(e.answer, `["`...), e.text...), `"]`...)
	if err := e.wire.send(e.packet); err != nil {
		return err
	}
	for {
		packet, err := e.wire.next()
		if err != nil {
			return err
		}
		if bytes.Equal(packet, e.answer) {
			return nil
		}
		if !bytes.HasPrefix(packet, []byte("42")) { // events of its own the server may send
			return fmt.Errorf("acknowledgement %.80q expected, got %.80q", e.answer, packet)
		}
	}
}

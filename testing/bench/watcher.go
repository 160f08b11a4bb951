package main

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

const (
	maxReconnects  = 5
	reconnectPause = 250 * time.Millisecond
)

// watcher is a client that has a run and keeps an eye on what the store knows of
// it. One that is sent away comes back and takes a snapshot as its new truth.
type watcher struct {
	addr, session string
	reader        *deltaReader

	chat       chatClient
	reconnects int
	volatile   int       // events that were shown before the store had them
	position   string    // of the latest one
	waiting    bool      // the latest one was such
	durable    time.Time // of the first event in the store after the last such
	over       bool      // a snapshot showed that the run has ended
}

// run has one run of n deltas to its end.
func (w *watcher) run(ctx context.Context, n, rate int) error {
	if err := w.connect(n, rate); err != nil {
		return err
	}
	defer func() { w.chat.abandon() }()
	if err := w.chat.start(w.session, n, rate); err != nil {
		return err
	}
	err := w.chat.finish(w.reader)
	for err != nil && ctx.Err() == nil {
		if w.reconnects++; w.reconnects > maxReconnects {
			return fmt.Errorf("%s after %d deltas: %w", w.session, w.reader.count, err)
		}
		if err := wait(ctx, reconnectPause); err != nil {
			return err
		}
		w.chat.abandon()
		if err = w.again(n, rate); err == nil && !w.over {
			err = w.chat.finish(w.reader)
		}
	}
	if err != nil {
		return fmt.Errorf("%s after %d deltas: %w", w.session, w.reader.count, err)
	}
	return w.reader.complete(n)
}

func (w *watcher) connect(n, rate int) error {
	c, err := dialChatAt(w.addr)
	if err != nil {
		return err
	}
	c.seen = w.see
	w.chat = c
	return c.SetDeadline(time.Now().Add(patience + time.Duration(n)*time.Second/time.Duration(rate)))
}

// again connects anew and asks for the session as it stands.
func (w *watcher) again(n, rate int) error {
	if err := w.connect(n, rate); err != nil {
		return err
	}
	return w.chat.follow(w.session)
}

func (w *watcher) see(event, packet []byte) error {
	switch string(event) {
	case "message.delta":
		w.place(offsetOf(packet))
	case "resumed":
		return w.takeSnapshot(packet)
	}
	return nil
}

// place looks at the position that a delta brings. "-" in place of positions says
// that the store does not have the delta yet, and so does a position that the
// delta before it had already.
func (w *watcher) place(offset []byte) {
	if len(offset) == 0 {
		return
	}
	switch {
	case bytes.HasSuffix(offset, []byte(".-")) || string(offset) == w.position:
		w.volatile++
		w.waiting = true
	case w.waiting:
		w.waiting = false
		w.durable = time.Now()
	}
	w.position = string(offset)
}

// takeSnapshot begins the text anew with that of the snapshot.
func (w *watcher) takeSnapshot(packet []byte) error {
	delays := w.reader.delays
	w.reader.delays = new(histogram) // old deltas are not late ones
	defer func() { w.reader.delays = delays }()
	w.reader.restart()
	w.waiting = false
	w.over = bytes.Contains(packet, []byte(`"isWorking":false`))
	_, text, found := bytes.Cut(packet, []byte(`"content":"`+firstDelta))
	if !found {
		return nil // nothing of the answer yet
	}
	text, _, _ = bytes.Cut(text, []byte{'"'})
	return w.reader.take(append([]byte(firstDelta), text...))
}

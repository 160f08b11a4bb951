package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"
)

// join opens the first connection and follows the session.
func (f *follower) join(addr string) error {
	w, err := dialWire(addr, idleBuffer)
	if err != nil {
		return err
	}
	f.chat = chatClient{wire: w, seen: f.remember}
	welcome, err := w.welcome(chatNamespace)
	if err != nil {
		return err
	}
	pid, found := quoted(welcome, `"pid":"`)
	if !found {
		return fmt.Errorf("the server offers no recovery: %s", welcome)
	}
	f.pid = string(pid)
	return f.chat.follow(f.session)
}

// watch reads the first run to its end and then answers heartbeats for a while:
// the server has written down by then where the client stands, as it has for
// clients that have been there for long.
func (f *follower) watch() error {
	if err := f.chat.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := f.chat.await("run.completed"); err != nil {
		return err
	}
	if f.offset == "" {
		return errors.New("events carry no offset")
	}
	if err := f.chat.SetDeadline(time.Now().Add(stormCalm)); err != nil {
		return err
	}
	for {
		if _, _, err := f.chat.event(); errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("before the storm: %w", err)
		}
	}
}

// remember keeps the position that the latest event brings.
func (f *follower) remember(_, packet []byte) error {
	if offset := offsetOf(packet); len(offset) > 0 {
		f.offset = string(offset)
	}
	return nil
}

// comeBack connects again with the position and reads what was missed.
func (f *follower) comeBack(s *storm, gate chan struct{}, joined func()) error {
	d := &deltaReader{total: &s.got.deltas, events: &s.got.events, delays: &s.got.delays, faults: &s.faults}
	gate <- struct{}{}
	over, err := f.rejoin(s.addr, d)
	<-gate
	if err != nil {
		return err
	}
	joined()
	s.joined.Add(1)
	if !over {
		err = f.chat.finish(d)
	}
	if err != nil {
		return fmt.Errorf("%s after %d deltas: %w", f.session, d.count, err)
	}
	return d.complete(s.load.missed)
}

// rejoin connects with the position and reads up to the reply: Node's socket.io
// sends what was missed before it. over says that it was all.
func (f *follower) rejoin(addr string, d *deltaReader) (over bool, err error) {
	w, err := dialWire(addr, idleBuffer)
	if err != nil {
		return false, err
	}
	f.chat = chatClient{wire: w, seen: noSnapshot}
	if err := w.SetDeadline(time.Now().Add(stormLimit)); err != nil {
		return false, err
	}
	prefix := connectPrefix(chatNamespace)
	if err := w.send(fmt.Appendf(nil, prefix+`{"pid":%q,"offset":%q}`, f.pid, f.offset)); err != nil {
		return false, err
	}
	for {
		packet, err := w.next()
		if err != nil {
			return over, err
		}
		if welcome, joined := bytes.CutPrefix(packet, []byte(prefix)); joined {
			if pid, _ := quoted(welcome, `"pid":"`); string(pid) != f.pid {
				return over, errForgotten
			}
			return over, nil
		}
		event, err := f.chat.name(packet)
		if err != nil {
			return over, err
		}
		last, err := apply(event, packet, d)
		if err != nil {
			return over, err
		}
		over = over || last
	}
}

// noSnapshot refuses a snapshot in place of what was missed.
func noSnapshot(event, _ []byte) error {
	if string(event) == "resumed" {
		return errSnapshot
	}
	return nil
}

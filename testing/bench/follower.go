package main

import (
	"fmt"
	"time"
)

// join opens the first connection and follows the session.
func (f *follower) join(addr string) error {
	w, err := dialWire(addr, idleBuffer)
	if err != nil {
		return err
	}
	f.chat = chatClient{wire: w, seen: f.remember}
	welcome, err := w.connect(chatNamespace, `{}`)
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

// watch reads the first run to its end.
func (f *follower) watch() error {
	if err := f.chat.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := f.chat.await("run.completed"); err != nil {
		return err
	}
	if f.offset == "" {
		return fmt.Errorf("events carry no offset")
	}
	return nil
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
	gate <- struct{}{}
	err := f.rejoin(s.addr)
	<-gate
	if err != nil {
		return err
	}
	joined()
	s.joined.Add(1)
	d := &deltaReader{total: &s.got.deltas, events: &s.got.events, delays: &s.got.delays, faults: &s.faults}
	if err := f.chat.finish(d); err != nil {
		return fmt.Errorf("%s after %d deltas: %w", f.session, d.count, err)
	}
	return d.complete(s.load.missed)
}

func (f *follower) rejoin(addr string) error {
	w, err := dialWire(addr, idleBuffer)
	if err != nil {
		return err
	}
	f.chat = chatClient{wire: w, seen: noSnapshot}
	welcome, err := w.connect(chatNamespace, fmt.Sprintf(`{"pid":%q,"offset":%q}`, f.pid, f.offset))
	if err != nil {
		return err
	}
	if pid, _ := quoted(welcome, `"pid":"`); string(pid) != f.pid {
		return errNotRecovered
	}
	return w.SetDeadline(time.Now().Add(stormLimit))
}

// noSnapshot refuses a snapshot in place of what was missed.
func noSnapshot(event, _ []byte) error {
	if string(event) == "resumed" {
		return errNotRecovered
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

func TestCounts(t *testing.T) {
	info := map[string]map[string]string{
		"Stats": {"total_commands_processed": "1000"},
		"Commandstats": {
			"cmdstat_evalsha":    "calls=30,usec=100,usec_per_call=3.3",
			"cmdstat_evalsha_ro": "calls=12,usec=100",
			"cmdstat_xadd":       "calls=500,usec=9",
		},
	}
	got, err := parseCounts(info)
	if err != nil || got != (storeCounts{commands: 1000, scripts: 42}) {
		t.Errorf("%+v, %v", got, err)
	}
	info["Commandstats"]["cmdstat_evalsha"] = "usec=1"
	for _, broken := range []map[string]map[string]string{nil, info} {
		if _, err := parseCounts(broken); err == nil {
			t.Errorf("%v was accepted", broken)
		}
	}
}

func TestOffset(t *testing.T) {
	for packet, want := range map[string]string{
		`42/chat-run,["message.delta",{"delta":"a"},"AbCd.0:7:x1y2z30"]`: "AbCd.0:7:x1y2z30",
		`42/chat-run,["message.delta",{"delta":"a"}]`:                    "",
		`42/chat-run,["message.delta",{"delta":"a"},"AbCd.-"]`:           "AbCd.-",
	} {
		if got := string(offsetOf([]byte(packet))); got != want {
			t.Errorf("%s: %q", packet, got)
		}
	}
}

// TestFaultsAreCounted: lossy scenarios go on where others end.
func TestFaultsAreCounted(t *testing.T) {
	d := newReader()
	d.faults = new(faults)
	for _, text := range []string{"load ", stamped(someTime, someTime+1), stamped(someTime+1, someTime+3)} {
		if err := d.take([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.complete(5); err != nil || d.faults.doubled.Load() != 1 || d.faults.lost.Load() != 2 {
		t.Errorf("doubled %d, lost %d, %v", d.faults.doubled.Load(), d.faults.lost.Load(), err)
	}
	if err := d.take([]byte("rubbish")); err == nil {
		t.Error("a text that is none was accepted")
	}
}

// TestWatcher: what a stream tells about the store, and a snapshot in its middle.
func TestWatcher(t *testing.T) {
	w := &watcher{reader: newReader()}
	for _, offset := range []string{"p.0:1:a", "p.0:2:b", "p.0:2:b", "p.-", ""} {
		w.place([]byte(offset))
	}
	if w.volatile != 2 || !w.durable.IsZero() {
		t.Errorf("%d events were not in the store, durable %s", w.volatile, w.durable)
	}
	w.place([]byte("p.0:5:c"))
	if w.volatile != 2 || w.durable.IsZero() {
		t.Errorf("%d events were not in the store, durable %s", w.volatile, w.durable)
	}
	if err := w.reader.take([]byte("load " + stamped(someTime))); err != nil {
		t.Fatal(err)
	}
	const resumed = `42/chat-run,["resumed",{"messages":[{"role":"user","content":"[[load 3 20]]"},{"content":"%s"}],"isWorking":%t}]`
	for _, c := range []struct {
		text    string
		working bool
		count   int
	}{
		{"load " + stamped(someTime, someTime+1), true, 2},
		{"", true, 0},
		{"load " + stamped(someTime, someTime+1, someTime+2), false, 3},
	} {
		if err := w.see([]byte("resumed"), fmt.Appendf(nil, resumed, c.text, c.working)); err != nil {
			t.Fatal(err)
		}
		if w.reader.count != c.count || w.over == c.working {
			t.Errorf("%d deltas of %d, over %t", w.reader.count, c.count, w.over)
		}
	}
	if err := w.reader.complete(3); err != nil {
		t.Error(err)
	}
}

func TestOutageIsJudged(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	o := outage{began, at(5000)}
	probes := []probe{
		{sent: at(0), refused: at(900)},
		{sent: at(2000), refused: at(2020)},
		{sent: at(5050), refused: at(5100)},
		{sent: at(5080), accepted: at(5090), started: at(5500)},
		{sent: at(5200), accepted: at(5210), started: at(5220)},
		{sent: at(5300), err: context.Canceled},
	}
	m := measurement{}
	if err := o.judge(probes, m); err != nil {
		t.Fatal(err)
	}
	wanted := measurement{firstRefusal: 900, slowRefusal: 900, fastRefusal: 20, acceptedAfter: 0.1, startedAfter: 0.22, failures: 1}
	for metric, want := range wanted {
		if math.Abs(m[metric]-want) > 1e-6 {
			t.Errorf("%s is %v, not %v", metric, m[metric], want)
		}
	}
	if err := o.judge(probes[:3], measurement{}); err == nil {
		t.Error("an outage that never ended was judged")
	}
}

// TestProbe: a message is refused, or runs after it has waited.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		events                     string
		refused, accepted, started bool
	}{
		{"run.failed", true, false, false},
		{"run.queued run.started run.completed", false, true, true},
		{"run.started run.failed", false, true, true},
	} {
		var p probe
		for event := range strings.FieldsSeq(c.events) {
			p.take(event, time.Now())
		}
		if p.refused.IsZero() == c.refused || p.accepted.IsZero() == c.accepted || p.started.IsZero() == c.started {
			t.Errorf("%s: %+v", c.events, p)
		}
	}
}

// TestReturn lets a client come back to a server that sends what was missed before
// its reply, as Node does, and to others.
func TestReturn(t *testing.T) {
	delta := func(text string) string {
		return `42/chat-run,["message.delta",{"delta":"` + text + `"},"o2"]`
	}
	const (
		welcome  = `40/chat-run,{"sid":"s","pid":"mine"}`
		stranger = `40/chat-run,{"sid":"s","pid":"other"}`
		over     = `42/chat-run,["run.completed",{},"o3"]`
		snapshot = `42/chat-run,["resumed",{},"o3"]`
	)
	text := delta("load " + stamped(someTime, someTime+1))
	for name, c := range map[string]struct {
		packets []string
		want    error
	}{
		"reply first": {[]string{welcome, text, over}, nil},
		"reply last":  {[]string{text, over, welcome}, nil},
		"forgotten":   {[]string{stranger}, errForgotten},
		"snapshot":    {[]string{welcome, snapshot}, errSnapshot},
	} {
		addr := serveOnce(t, c.packets)
		s := &storm{addr: addr, load: stormLoad{missed: 2}}
		f := &follower{pid: "mine", offset: "o1"}
		err := f.comeBack(s, make(chan struct{}, 1), func() {})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == nil && (s.got.deltas.Load() != 2 || s.faults.lost.Load() != 0) {
			t.Errorf("%s: %d deltas, %d lost", name, s.got.deltas.Load(), s.faults.lost.Load())
		}
		f.chat.abandon()
	}
}

// serveOnce serves one WebSocket that answers the first packet with all of its own.
func serveOnce(t *testing.T, packets []string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		if _, err := ws.Upgrade(nc); err != nil {
			return
		}
		if err := ws.WriteFrame(nc, ws.NewTextFrame([]byte(`0{}`))); err != nil {
			return
		}
		if _, err := readFrame(nc); err != nil {
			return
		}
		for _, p := range packets {
			if err := ws.WriteFrame(nc, ws.NewTextFrame([]byte(p))); err != nil {
				return
			}
		}
		_, _ = readFrame(nc) // until the client has gone
	}()
	return ln.Addr().String()
}

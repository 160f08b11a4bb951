package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFigures(t *testing.T) {
	for _, c := range []struct {
		values         samples
		median, spread float64
	}{
		{samples{3}, 3, 0},
		{samples{5, 1, 3}, 3, 2.0 / 3},
		{samples{4, 2}, 3, 1.0 / 3},
	} {
		if got := c.values.median(); got != c.median {
			t.Errorf("median of %v: %v", c.values, got)
		}
		if got := c.values.spread(); math.Abs(got-c.spread) > 1e-9 {
			t.Errorf("spread of %v: %v", c.values, got)
		}
	}
	if !math.IsNaN(samples(nil).median()) {
		t.Error("a median without values")
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	h.add(time.Hour)
	h.on.Store(true)
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond} {
		got := h.quantile(q)
		if got < want || got > want+want/25 {
			t.Errorf("quantile %v is %s, the value is %s", q, got, want)
		}
	}
	for _, v := range []uint64{0, 31, 32, 33, 63, 64, 1000, 1 << 40, math.MaxInt64} {
		if b := bucketOf(v); upperEdge(b) < v || b > 0 && upperEdge(b-1) >= v {
			t.Errorf("%d is in bucket %d, which ends at %d", v, b, upperEdge(b))
		}
	}
}

func newReader() *deltaReader {
	return &deltaReader{total: new(atomic.Int64), events: new(atomic.Int64), delays: new(histogram)}
}

func stamped(stamps ...int64) string {
	var b strings.Builder
	for _, s := range stamps {
		fmt.Fprintf(&b, "%d%s", s, deltaPadding)
	}
	return b.String()
}

const someTime = int64(1_700_000_000_000_000_000)

func TestDeltasAreCountedAndChecked(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		fails bool
	}{
		"one by one":   {[]string{"load ", stamped(someTime), stamped(someTime + 1), stamped(someTime + 2)}, false},
		"merged":       {[]string{"load " + stamped(someTime, someTime+1), stamped(someTime + 2)}, false},
		"one is lost":  {[]string{"load ", stamped(someTime, someTime+2)}, true},
		"doubled":      {[]string{"load ", stamped(someTime, someTime, someTime+1)}, true},
		"swapped":      {[]string{"load ", stamped(someTime+1, someTime, someTime+2)}, true},
		"cut":          {[]string{"load ", stamped(someTime, someTime+1), stamped(someTime + 2)[:20]}, true},
		"changed":      {[]string{"load ", stamped(someTime, someTime+1), strings.ToUpper(stamped(someTime + 2))}, true},
		"no beginning": {[]string{stamped(someTime, someTime+1, someTime+2)}, true},
	} {
		d := newReader()
		var err error
		for _, text := range c.texts {
			if err == nil {
				err = d.take([]byte(text))
			}
		}
		if err == nil {
			err = d.complete(3)
		}
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if !c.fails && (d.total.Load() != 3 || d.events.Load() != int64(len(c.texts))) {
			t.Errorf("%s: %d deltas in %d events", name, d.total.Load(), d.events.Load())
		}
	}
}

func TestReadStream(t *testing.T) {
	const frame = "event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"delta\": %q, \"logprobs\": []}\n\n"
	whole := fmt.Sprintf(frame, "load ") + fmt.Sprintf(frame, stamped(someTime)) +
		"event: response.output_text.done\ndata: {\"text\": \"load \"}\n\nevent: response.completed\ndata: {}\n\n"
	d := newReader()
	completed, err := readStream(bufio.NewReader(strings.NewReader(whole)), d)
	if err != nil || !completed || d.complete(1) != nil {
		t.Errorf("completed %t, %d deltas, %v", completed, d.count, err)
	}
	cut, _, _ := strings.Cut(whole, "event: response.completed")
	if completed, err := readStream(bufio.NewReader(strings.NewReader(cut)), newReader()); err != nil || completed {
		t.Errorf("a stream without its end: completed %t, %v", completed, err)
	}
}

// TestWire lets the generator's WebSocket talk to gobwas/ws itself.
func TestWire(t *testing.T) {
	for _, size := range []int{1, 125, 126, 65535, 65536} {
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- echoOnce(far) }()
		w := &wire{Conn: near, r: bufio.NewReaderSize(near, 16)}
		pings := 0
		w.pings = func() { pings++ }
		text := bytes.Repeat([]byte("a"), size)
		if err := w.send(text); err != nil {
			t.Fatal(err)
		}
		got, err := w.next()
		if err != nil || !bytes.Equal(got, text) || pings != 1 {
			t.Errorf("%d bytes: got %d, %d heartbeats, %v", size, len(got), pings, err)
		}
		if err := <-served; err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		if _, err := w.next(); err != errClosed {
			t.Errorf("after the close frame: %v", err)
		}
		w.abandon()
		_ = far.Close()
	}
}

// echoOnce sends a heartbeat and expects its answer, then sends a message back and
// closes.
func echoOnce(nc net.Conn) error {
	message, err := readFrame(nc)
	if err != nil {
		return err
	}
	if err := ws.WriteFrame(nc, ws.NewTextFrame([]byte("2"))); err != nil {
		return err
	}
	answer, err := readFrame(nc)
	if err != nil {
		return err
	}
	if answer = ws.UnmaskFrame(answer); string(answer.Payload) != "3" {
		return fmt.Errorf("heartbeat answered by %q", answer.Payload)
	}
	if err := ws.WriteFrame(nc, ws.NewTextFrame(ws.UnmaskFrame(message).Payload)); err != nil {
		return err
	}
	go func() { _ = ws.WriteFrame(nc, ws.NewCloseFrame(nil)) }()
	return nil
}

func readFrame(nc net.Conn) (ws.Frame, error) {
	h, err := ws.ReadHeader(nc)
	if err != nil {
		return ws.Frame{}, err
	}
	if h.Length > 1<<20 {
		return ws.Frame{}, fmt.Errorf("a frame of %d bytes", h.Length)
	}
	payload := make([]byte, h.Length)
	_, err = io.ReadFull(nc, payload)
	return ws.Frame{Header: h, Payload: payload}, err
}

func TestProc(t *testing.T) {
	cpu, err := parseCPU([]byte("42 (a) b (c)) S 1 42 42 0 -1 4194304 1 0 0 0 150 50 0 0 20 0"))
	if err != nil || cpu != 2*time.Second {
		t.Errorf("cpu %s, %v", cpu, err)
	}
	rss, err := statusValue([]byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"), "VmRSS:")
	if err != nil || rss != 1024 {
		t.Errorf("resident %d, %v", rss, err)
	}
	busy, err := parseBusy([]byte("cpu  100 100 100 9999 9999 50 25 25 7 7\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	if err != nil || busy != 4*time.Second {
		t.Errorf("busy %s, %v", busy, err)
	}
	for _, broken := range []string{"", "cpu 1 2", "cpu a b c d e f g h"} {
		if _, err := parseBusy([]byte(broken)); err == nil {
			t.Errorf("%q was accepted", broken)
		}
	}
	n, err := memstat("# HeapInuse = 4096\n# Stack = 100 / 200\n", "# Stack = ")
	if err != nil || n != 100 {
		t.Errorf("stacks %d, %v", n, err)
	}
}

func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		budget       budget
		value, ratio float64
		want, text   string
	}{
		{budget{}, 1, 1, "", ""},
		{budget{ratio: 0.75}, 10, 0.7, "ok", "<= 0.75x"},
		{budget{ratio: 0.75}, 10, 0.8, "MISSED", "<= 0.75x"},
		{budget{ratio: 0.6, absolute: 8}, 9, 0.5, "MISSED", "<= 0.60x, <= 8"},
		{budget{absolute: 60_000, atLeast: true}, 70_000, math.NaN(), "ok", ">= 60000"},
		{budget{ratio: 2, atLeast: true}, 1, 1.5, "MISSED", ">= 2.00x"},
		{budget{ratio: 2, atLeast: true}, 1, math.NaN(), "MISSED", ">= 2.00x"},
		{budget{none: true}, 0, math.NaN(), "ok", "0"},
		{budget{none: true}, 1, math.NaN(), "MISSED", "0"},
		{budget{none: true}, math.NaN(), math.NaN(), "MISSED", "0"},
	} {
		if got := c.budget.verdict(c.value, c.ratio); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
		if got := c.budget.String(); got != c.text {
			t.Errorf("%+v is written %q", c.budget, got)
		}
	}
}

func TestTable(t *testing.T) {
	s := scenario{id: "b9", title: "test", rows: []row{
		{ours: "us", peer: "them", metric: cpuPerUnit, label: "CPU", unit: "µs", budget: budget{ratio: 0.5}},
		selfCheck("us"),
		generatorLoad("us"),
		disturbance("us", "them"),
	}}
	r := make(results)
	r.add("us", measurement{cpuPerUnit: 10, load: 95, strangers: 50})
	r.add("us", measurement{cpuPerUnit: 12, load: 95, strangers: 50})
	r.add("us again", measurement{cpuPerUnit: 12.2})
	r.add("them", measurement{cpuPerUnit: 20})
	var b strings.Builder
	if err := writeTable(&b, []scenario{s}, []results{r}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{"median", "---", "MISSED", "VOID", "saturated", "disturbed"} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %q: %s", i, want, lines[i])
		}
		if len([]rune(lines[i])) != len([]rune(lines[0])) {
			t.Errorf("line %d is not as long as the headings", i)
		}
	}
	if !strings.Contains(lines[2], "11.0 µs") || !strings.Contains(lines[2], "0.55") {
		t.Errorf("figures: %s", lines[2])
	}
}

func TestOptions(t *testing.T) {
	o := options{only: "b3,burst", rounds: 3, short: true, idle: 10, storm: 5}
	only, s, err := o.check()
	if err != nil || !slices.Equal(only, []string{"b3", "burst"}) || o.rounds != 1 || s.idleConnections != 10 ||
		s.stormClients != 5 || s.stormSessions != 5 {
		t.Errorf("%v %+v %+v %v", only, s, o, err)
	}
	for _, wrong := range []options{{only: "b2", rounds: 1}, {only: "b1"}, {only: "b1", rounds: 1, idle: 1 << 30}, {only: "b7", rounds: 1, storm: 1 << 30}} {
		if _, _, err := wrong.check(); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
	for _, s := range suite(new(binaries), fullSizes, []string{"b4", "burst"}) {
		if s.id != "b4" && s.id != "burst" {
			t.Errorf("scenario %s was not asked for", s.id)
		}
	}
}

// TestRowsHaveTheirSides finds rows that could never show a figure.
func TestRowsHaveTheirSides(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range suite(new(binaries), fullSizes, allIDs) {
		seen[s.id] = true
		names := make(map[string]bool)
		for _, side := range s.sides {
			names[side.name] = true
		}
		for _, r := range s.rows {
			if !names[r.ours] || r.peer != "" && !names[r.peer] {
				t.Errorf("%s %s: no side %q or %q for %s", s.id, s.title, r.ours, r.peer, r.label)
			}
		}
	}
	for _, id := range allIDs {
		if !seen[id] {
			t.Errorf("-only %s runs nothing", id)
		}
	}
}

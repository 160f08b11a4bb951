package main

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"time"
)

// The load mode of the fake gateway sends a first delta and then deltas of this
// form: the time of writing in Unix nanoseconds and padding.
const (
	firstDelta   = "load "
	stampDigits  = 19
	deltaPadding = " load 0123456789"
	deltaLength  = stampDigits + len(deltaPadding)
)

// deltaReader checks the text of one run, delta by delta: each must be whole and
// later than the one before it, so that nothing can be lost, doubled or
// swapped as long as the number is right in the end. Deltas may come merged.
type deltaReader struct {
	total  *atomic.Int64 // deltas of all runs
	events *atomic.Int64 // events they came in, of all runs
	delays *histogram
	faults *faults // counts what is wrong in place of an error, may be nil
	first  bool
	count  int
	last   int64
	bytes  int
}

func (d *deltaReader) take(text []byte) error {
	now := time.Now().UnixNano()
	d.bytes += len(text)
	if !d.first {
		rest, ok := bytes.CutPrefix(text, []byte(firstDelta))
		if !ok {
			return fmt.Errorf("text begins with %.40q, not with %q", text, firstDelta)
		}
		d.first, text = true, rest
	}
	n := int64(0)
	for ; len(text) > 0; text = text[deltaLength:] {
		stamp, ok := stampOf(text)
		if !ok {
			return fmt.Errorf("delta %d is %.60q", d.count+1, text)
		}
		if stamp <= d.last {
			if d.faults == nil {
				return fmt.Errorf("delta %d is not later than the one before it", d.count+1)
			}
			d.faults.doubled.Add(1)
			continue
		}
		d.last = stamp
		d.count++
		d.delays.add(time.Duration(now - stamp))
		n++
	}
	d.total.Add(n)
	d.events.Add(1)
	return nil
}

// faults are what clients have found wrong in texts.
type faults struct{ lost, doubled atomic.Int64 }

// restart begins the text anew, as a client does with a snapshot.
func (d *deltaReader) restart() { d.first, d.count, d.last, d.bytes = false, 0, 0, 0 }

func stampOf(text []byte) (int64, bool) {
	if len(text) < deltaLength || string(text[stampDigits:deltaLength]) != deltaPadding {
		return 0, false
	}
	var stamp int64
	for _, digit := range text[:stampDigits] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		stamp = stamp*10 + int64(digit-'0')
	}
	return stamp, true
}

// complete checks a run that has ended with n deltas asked for.
func (d *deltaReader) complete(n int) error {
	if d.faults != nil {
		d.faults.lost.Add(int64(n - d.count))
		return nil
	}
	if d.count != n || d.bytes != len(firstDelta)+n*deltaLength {
		return fmt.Errorf("run ended after %d of %d deltas and %d bytes of text", d.count, n, d.bytes)
	}
	return nil
}

// quoted returns the JSON text behind a key; the texts of these runs hold no
// escapes.
func quoted(packet []byte, key string) ([]byte, bool) {
	_, rest, found := bytes.Cut(packet, []byte(key))
	if !found {
		return nil, false
	}
	text, _, found := bytes.Cut(rest, []byte{'"'})
	return text, found
}

package fakegateway

import (
	"strconv"
	"time"
)

const (
	burstFlush  = 16
	loadPadding = " load 0123456789"
)

// Load streams n deltas at rate a second, or as fast as they go if rate is 0.
// A delta frame is in the gateway's wire shape and of ordinary length; its text
// begins with the time of writing in Unix nanoseconds, so that a receiver
// can tell the delay. Deltas are written at their own time: a late one does not
// push back the next. The terminal event repeats only the first delta's text.
func Load(t *Turn, n, rate int) {
	t.Created()
	t.Delta("load ")
	start := time.Now()
	for i := range n {
		if rate > 0 && !t.waitUntil(start.Add(time.Duration(i)*time.Second/time.Duration(rate))) {
			return
		}
		t.loadDelta()
		if rate > 0 || i%burstFlush == burstFlush-1 {
			t.flush()
		}
		if rate == 0 && t.Gone() {
			return
		}
	}
	t.Complete(Usage{Input: 1, Output: n})
}

func (t *Turn) waitUntil(at time.Time) bool {
	if wait := time.Until(at); wait > 0 {
		return t.Wait(wait)
	}
	return !t.Gone()
}

// loadDelta builds the frame by hand: the fake shares its processor with what
// it measures.
func (t *Turn) loadDelta() {
	b := append(t.buffer[:0], "event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"item_id\": \""...)
	b = append(b, t.messageID()...)
	b = append(b, `", "output_index": 0, "content_index": 0, "delta": "`...)
	b = strconv.AppendInt(b, time.Now().UnixNano(), 10)
	b = append(b, loadPadding...)
	b = append(b, `", "logprobs": [], "sequence_number": `...)
	b = strconv.AppendInt(b, int64(t.sequence), 10)
	b = append(b, "}\n\n"...)
	t.sequence++
	t.buffer = b
	t.write(b)
}

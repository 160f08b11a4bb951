package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// The histogram has 32 buckets for each doubling, so a percentile is at most 3 %
// off.
const (
	subBits    = 5
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

// histogram counts durations. It is safe for concurrent use; it counts nothing
// until it is switched on.
type histogram struct {
	on     atomic.Bool
	counts [buckets]atomic.Uint32
}

func (h *histogram) add(d time.Duration) {
	if h.on.Load() {
		h.counts[bucketOf(uint64(max(d, 0)))].Add(1)
	}
}

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits + int(v>>shift) - subBuckets
}

// upperEdge is the largest value of a bucket.
func upperEdge(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(subBuckets-1))+subBuckets+1)<<shift - 1
}

// quantile returns the value that a share q of all is not above, 0 without any.
func (h *histogram) quantile(q float64) time.Duration {
	var all, seen uint64
	for i := range h.counts {
		all += uint64(h.counts[i].Load())
	}
	for i := range h.counts {
		if seen += uint64(h.counts[i].Load()); all > 0 && float64(seen) >= q*float64(all) {
			return time.Duration(upperEdge(i))
		}
	}
	return 0
}

// into writes the usual percentiles into a measurement.
func (h *histogram) into(m measurement) {
	m[latencyP50] = milliseconds(h.quantile(0.50))
	m[latencyP99] = milliseconds(h.quantile(0.99))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package main

import (
	"math"
	"slices"
)

// samples are the values of one metric over the rounds.
type samples []float64

func (s samples) median() float64 { return median(s) }

// median of any order; NaN without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// spread is half the distance between the largest and the smallest value, as a
// share of the median.
func (s samples) spread() float64 {
	if len(s) < 2 || s.median() == 0 {
		return 0
	}
	return (slices.Max(s) - slices.Min(s)) / 2 / math.Abs(s.median())
}

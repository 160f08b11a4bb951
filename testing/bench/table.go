package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	selfTolerance  = 0.05 // a server that differs more from itself makes a run void
	strangerLimit  = 20   // percent of a core
	loadLimit      = 90   // percent of the generator's core
	absentFromCell = "-"
)

// budget is a limit on our figure, on its ratio to the peer's, or both; zero is
// none.
type budget struct {
	ratio, absolute float64
	atLeast         bool // figures should be large
	none            bool // figures should be zero
}

func (b budget) String() string {
	if b.none {
		return "0"
	}
	sign := "<= "
	if b.atLeast {
		sign = ">= "
	}
	var parts []string
	if b.ratio > 0 {
		parts = append(parts, sign+strconv.FormatFloat(b.ratio, 'f', 2, 64)+"x")
	}
	if b.absolute > 0 {
		parts = append(parts, sign+strconv.FormatFloat(b.absolute, 'f', -1, 64))
	}
	return strings.Join(parts, ", ")
}

func (b budget) verdict(value, ratio float64) string {
	if b.ratio == 0 && b.absolute == 0 && !b.none {
		return ""
	}
	if b.none && value == 0 {
		return "ok"
	}
	if !b.none && b.keeps(ratio, b.ratio) && b.keeps(value, b.absolute) {
		return "ok"
	}
	return "MISSED"
}

func (b budget) keeps(value, limit float64) bool {
	if limit == 0 {
		return true
	}
	if b.atLeast {
		return value >= limit
	}
	return value <= limit
}

// row is one line of the table: a metric of our server beside the peer's.
type row struct {
	ours, peer          string
	metric, label, unit string
	budget              budget
	self                bool // the peer is the same server: check the run
	generator           bool // the load of the generator: warn
	strangers           bool // the time of other programs: warn
}

func selfCheck(name string) row {
	return row{ours: name + again, peer: name, metric: cpuPerUnit, label: "check: CPU of a second run", unit: "µs", self: true}
}

// disturbance shows what other programs took from the cores meanwhile.
func disturbance(ours, peer string) row {
	return row{ours: ours, peer: peer, metric: strangers, label: "check: other programs", unit: "%", strangers: true}
}

func generatorLoad(name string) row {
	return row{ours: name, metric: load, label: "check: generator's core", unit: "%", generator: true}
}

var headings = []string{"", "ours", "metric", "median", "±", "peer", "median", "±", "ratio", "budget", ""}

// writeTable prints a Markdown table that also reads as it is.
func writeTable(w io.Writer, scenarios []scenario, all []results) error {
	lines := [][]string{headings, nil}
	for i, s := range scenarios {
		for j, r := range s.rows {
			title := ""
			if j == 0 {
				title = s.id + " " + s.title
			}
			lines = append(lines, append([]string{title}, r.cells(all[i])...))
		}
	}
	widths := make([]int, len(headings))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, "| "+strings.Join(padded(line, widths), " | ")+" |"); err != nil {
			return err
		}
	}
	return nil
}

// padded fills the cells of a line; a nil line is the rule under the headings.
func padded(line []string, widths []int) []string {
	out := make([]string, len(widths))
	for i, width := range widths {
		if line == nil {
			out[i] = strings.Repeat("-", max(width, 1))
			continue
		}
		out[i] = line[i] + strings.Repeat(" ", width-utf8.RuneCountInString(line[i]))
	}
	return out
}

func (r row) cells(all results) []string {
	ours := all[r.ours][r.metric]
	value, other, ratio := ours.median(), math.NaN(), math.NaN()
	peer, peerSpread := absentFromCell, ""
	if theirs := all[r.peer][r.metric]; len(theirs) > 0 {
		other = theirs.median()
		peer, peerSpread = r.peer, percent(theirs.spread())
		ratio = value / other
	}
	return []string{
		r.ours, r.label, figure(value, r.unit), percent(ours.spread()),
		peer, figure(other, r.unit), peerSpread, ratioText(ratio), r.budget.String(), r.verdict(value, ratio),
	}
}

func (r row) verdict(value, ratio float64) string {
	switch {
	case r.self && math.Abs(ratio-1) > selfTolerance:
		return "VOID"
	case r.self:
		return "ok"
	case r.strangers && value > strangerLimit:
		return "disturbed: rates and delays do not count"
	case r.generator && value > loadLimit:
		return "saturated: rates and delays do not count"
	}
	return r.budget.verdict(value, ratio)
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + " %" }

func ratioText(ratio float64) string {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return absentFromCell
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}

func figure(value float64, unit string) string {
	if math.IsNaN(value) {
		return absentFromCell
	}
	digits := 2
	switch {
	case math.Abs(value) >= 1000:
		digits = 0
	case math.Abs(value) >= 10:
		digits = 1
	}
	return strings.TrimSpace(strconv.FormatFloat(value, 'f', digits, 64) + " " + unit)
}

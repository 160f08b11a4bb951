package caddymodule

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// word is one option of a block.
type word struct {
	name  string
	rep   bool // may be given more than once
	block bool // may open a block, which parse reads
	parse func(args []string) error
}

// parseBlock reads the options of the block that follows. kind names the block
// in errors about unknown words, prefix starts all other errors ("gateway
// \"work\": ", or nothing).
func parseBlock(d *caddyfile.Dispenser, kind, prefix string, words []word) error {
	seen := make(map[string]bool, len(words))
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		i := slices.IndexFunc(words, func(w word) bool { return w.name == name })
		if i < 0 {
			return located(d, "", errors.New(unknownWord(kind, name, words)))
		}
		w := words[i]
		if seen[name] && !w.rep {
			return located(d, prefix, fmt.Errorf("%s is given twice", name))
		}
		seen[name] = true
		if err := w.parse(d.RemainingArgs()); err != nil {
			return located(d, prefix, err)
		}
		if !w.block && d.NextBlock(d.Nesting()) {
			return located(d, prefix, fmt.Errorf("%s takes no block", name))
		}
	}
	return nil
}

// locatedError is an error that already names its file and line.
type locatedError struct{ error }

// located adds prefix, file and line, once.
func located(d *caddyfile.Dispenser, prefix string, err error) error {
	var done locatedError
	if errors.As(err, &done) {
		return err
	}
	return locatedError{d.WrapErr(fmt.Errorf("%s%w", prefix, err))}
}

func unknownWord(kind, name string, words []word) string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = w.name
	}
	slices.Sort(names)
	hint := ""
	if near := nearest(name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Sprintf("unrecognized %s option %q%s (options: %s)", kind, name, hint, strings.Join(names, ", "))
}

// nearest returns the word that name is most likely a misspelling of, "" if none
// is near.
func nearest(name string, words []string) string {
	if len(words) == 0 || len(name) > 64 {
		return ""
	}
	best := slices.MinFunc(words, func(a, b string) int {
		return cmp.Compare(editDistance(name, a), editDistance(name, b))
	})
	if editDistance(name, best) > max(1, len(best)/3) {
		return ""
	}
	return best
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(row[j]+1, row[j+1]+1, change)
		}
	}
	return row[len(b)]
}

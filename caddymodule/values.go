package caddymodule

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
)

// one is an option with exactly one argument.
func one(name, example string, set func(value string) error) func([]string) error {
	return func(args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one value, for example: %s %s", name, name, example)
		}
		return set(args[0])
	}
}

// text is an option with one argument that is kept as it is.
func text(name, example string, target *string) func([]string) error {
	return one(name, example, func(value string) error {
		if value == "" {
			return fmt.Errorf("%s is empty", name)
		}
		*target = value
		return nil
	})
}

// bare is an option without arguments.
func bare(name string, target *bool) func([]string) error {
	return func(args []string) error {
		if len(args) != 0 {
			return fmt.Errorf("%s takes no value", name)
		}
		*target = true
		return nil
	}
}

// duration is an option with a duration between two bounds.
func duration(name, example string, low, high time.Duration, target *caddy.Duration) func([]string) error {
	return one(name, example, func(value string) error {
		parsed, err := caddy.ParseDuration(value)
		if err != nil {
			return fmt.Errorf("%s %q is not a duration, for example %s", name, value, example)
		}
		*target = caddy.Duration(parsed)
		return inRange(name, parsed, low, high)
	})
}

// size is an option with a number of bytes between two bounds.
func size(name, example string, low, high int64, target *int64) func([]string) error {
	return one(name, example, func(value string) error {
		parsed, err := humanize.ParseBytes(value)
		if err != nil || parsed > math.MaxInt64 {
			return fmt.Errorf("%s %q is not a size, for example %s", name, value, example)
		}
		*target = int64(parsed)
		return sizeInRange(name, *target, low, high)
	})
}

// count is an option with a whole number between two bounds.
func count(name, example string, low, high int, target *int) func([]string) error {
	return one(name, example, func(value string) error {
		parsed, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%s %q is not a number, for example %s", name, value, example)
		}
		*target = parsed
		return inRange(name, parsed, low, high)
	})
}

// rate is an option with a number of events per second, "50/s" or "50".
func rate(name, example string, low, high float64, target *float64) func([]string) error {
	return one(name, example, func(value string) error {
		parsed, err := strconv.ParseFloat(strings.TrimSuffix(value, "/s"), 64)
		if err != nil || math.IsNaN(parsed) {
			return fmt.Errorf("%s %q is not a rate, for example %s", name, value, example)
		}
		*target = parsed
		return inRange(name, parsed, low, high)
	})
}

// inRange is an error that names the bounds if value is outside of them.
func inRange[T int | float64 | time.Duration](name string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s %v is out of range (%v to %v)", name, value, low, high)
	}
	return nil
}

func sizeInRange(name string, value, low, high int64) error {
	if value < low || value > high {
		return fmt.Errorf("%s %s is out of range (%s to %s)", name,
			humanize.IBytes(uint64(max(value, 0))), humanize.IBytes(uint64(low)), humanize.IBytes(uint64(high)))
	}
	return nil
}

// hasPlaceholder reports whether a value is known only in Provision.
func hasPlaceholder(value string) bool { return strings.ContainsRune(value, '{') }

// errEmptyFile is what a secret file that is missing, unreadable or empty comes to.
var errEmptyFile = errors.New("the file cannot be read, or is empty")

// resolve replaces the placeholders of an optional value; what an environment
// variable leaves empty is unset. A file that the operator names must have content.
func resolve(repl *caddy.Replacer, value string) (string, error) {
	resolved, err := repl.ReplaceOrErr(value, false, true)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(resolved) == "" && strings.Contains(value, "{file.") {
		return "", errEmptyFile
	}
	return strings.TrimSpace(resolved), nil
}

// resolveRequired replaces the placeholders of a value that must not be empty.
func resolveRequired(repl *caddy.Replacer, value string) (string, error) {
	resolved, err := repl.ReplaceOrErr(value, true, true)
	return strings.TrimSpace(resolved), err
}

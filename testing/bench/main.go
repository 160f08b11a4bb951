package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	only     string
	rounds   int
	short    bool
	pin      bool
	idle     int
	storm    int
	profiles string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", strings.Join(allIDs, ","), "what to run, separated by commas")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; the table shows medians over them")
	flag.BoolVar(&o.short, "short", false, "one short round: shows that everything works, figures are rough")
	flag.BoolVar(&o.pin, "pin", canPin(), "pin server and generator to a core each (taskset)")
	flag.IntVar(&o.idle, "idle", 0, "idle connections of b1 (default 10000, with -short 2000)")
	flag.IntVar(&o.storm, "storm", 0, "clients of b7 (default 10000, with -short 500)")
	flag.StringVar(&o.profiles, "profile", "", "write CPU and heap profiles of the Go servers into this directory; figures then include the profiler")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	only, s, err := o.check()
	if err != nil {
		return err
	}
	module, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hermes-edge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(os.Stderr, "building")
	needNode := slices.ContainsFunc(only, func(id string) bool { return id == "b1" || id == "b3" || id == "b7" })
	binaries, err := build(ctx, dir, module, needNode)
	if err != nil {
		return err
	}
	start := time.Now()
	r := runner{rounds: o.rounds, pin: o.pin, profiles: o.profiles, progress: os.Stderr}
	scenarios := suite(binaries, s, only)
	var all []results
	for _, one := range scenarios {
		result, failed := r.run(ctx, one)
		if err = failed; err != nil {
			break // what has been measured is worth showing
		}
		all = append(all, result)
	}
	fmt.Printf("%s, %d cores, %s, rounds: %d, pinned: %t, took %s\n\n",
		runtime.Version(), runtime.NumCPU(), runtime.GOARCH, o.rounds, o.pin, time.Since(start).Round(time.Second))
	return errors.Join(err, writeTable(os.Stdout, scenarios[:len(all)], all))
}

// check returns the ids to run and their sizes.
func (o *options) check() ([]string, sizes, error) {
	only := strings.Split(o.only, ",")
	for _, id := range only {
		if !slices.Contains(allIDs, id) {
			return nil, sizes{}, fmt.Errorf("-only %q is unknown (%s)", id, strings.Join(allIDs, ", "))
		}
	}
	if o.rounds < 1 {
		return nil, sizes{}, errors.New("-rounds must be at least 1")
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return nil, sizes{}, fmt.Errorf("-profile: %w", err)
		}
	}
	s := fullSizes
	if o.short {
		s, o.rounds = shortSizes, 1
	}
	if o.idle > 0 {
		s.idleConnections = o.idle
	}
	if o.storm > 0 {
		s.stormClients = o.storm
		s.stormSessions = min(s.stormSessions, o.storm)
	}
	limit, err := openFileLimit()
	if most := max(s.idleConnections, s.stormClients); err == nil && limit > 0 && most > limit-spareFiles {
		err = fmt.Errorf("%d connections need more open files than the limit of %d: raise it (ulimit -n) or use -idle and -storm", most, limit)
	}
	return only, s, err
}

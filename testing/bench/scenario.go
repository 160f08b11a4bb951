package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// scenario is a load that is put on several servers in turn.
type scenario struct {
	id, title string
	pinned    bool // server and generator on a core each
	limit     time.Duration
	sides     []side // in the order of a round
	rows      []row
}

// side is one server under the load.
type side struct {
	name    string
	start   starter
	measure func(context.Context, *target) (measurement, error)
}

// again marks the second run of the same server in a round.
const again = " again"

// results hold the samples of a scenario by side and metric.
type results map[string]map[string]samples

func (r results) add(name string, m measurement) {
	if r[name] == nil {
		r[name] = make(map[string]samples)
	}
	for metric, value := range m {
		r[name][metric] = append(r[name][metric], value)
	}
}

// runner carries out scenarios.
type runner struct {
	rounds   int
	pin      bool
	profiles string // directory for profiles of the Go servers, empty for none
	progress io.Writer
}

func (r runner) run(ctx context.Context, s scenario) (results, error) {
	serverOn, selfOn := anyCore, anyCore
	if r.pin && s.pinned {
		serverOn, selfOn = serverCore, generatorCore
	}
	if r.pin {
		if err := pinSelf(selfOn); err != nil {
			return nil, err
		}
	}
	all := make(results)
	for round := range r.rounds {
		for _, side := range s.sides {
			fmt.Fprintf(r.progress, "%s %s, round %d of %d: %s\n", s.id, s.title, round+1, r.rounds, side.name)
			m, err := r.measure(ctx, s, side, serverOn)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %s: %w", s.id, s.title, side.name, err)
			}
			all.add(side.name, m)
		}
	}
	return all, nil
}

func (r runner) measure(ctx context.Context, s scenario, side side, core int) (measurement, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	t, err := side.start(ctx, core)
	if err != nil {
		return nil, err
	}
	defer t.stop()
	t.progress = r.progress
	if r.profiles != "" && t.process != nil && t.debug != "" {
		name := strings.NewReplacer(" ", "_", "/", "_", ",", "").Replace(s.id + "_" + s.title + "_" + side.name)
		t.profile = filepath.Join(r.profiles, name)
	}
	m, err := side.measure(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("%w\nlast lines of the servers:\n%s", err, t.lastLines())
	}
	return m, nil
}

//go:build unix

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// What the environment may set.
const (
	envDuration = "HERMES_EDGE_CHAOS_DURATION" // of all rounds, default 100s
	envSeed     = "HERMES_EDGE_CHAOS_SEED"     // of the first round, default by the time
	envFaults   = "HERMES_EDGE_CHAOS_FAULTS"   // comma-separated kinds, default all
	envFolder   = "HERMES_EDGE_CHAOS_DIR"      // kept; default a new one, kept after a failure
)

const (
	roundLength   = 100 * time.Second
	maxViolations = 20
	lastLines     = 40
	lineWidth     = 200
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is the gateway and the cluster of one test.
type stand struct {
	folder  string
	gateway *Gateway
	cluster *Cluster
}

func newStand(t *testing.T, nodes int, redis bool) *stand {
	t.Helper()
	s := &stand{folder: testFolder(t)}
	c := clock{start: time.Now()}
	s.gateway = newGateway(c)
	fake := fakegateway.Start(t, fakegateway.Options{Script: s.gateway.Script})
	s.cluster = startCluster(t, c, clusterConfig{
		gateway: fake.URL, users: users, nodes: nodes, redis: redis,
		folder: func(node string) string {
			folder := filepath.Join(s.folder, node)
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			return folder
		},
	})
	return s
}

// testFolder holds the logs of the nodes and the timelines; it is kept if the test
// fails.
func testFolder(t *testing.T) string {
	t.Helper()
	if named := os.Getenv(envFolder); named != "" {
		return filepath.Join(named, t.Name())
	}
	folder, err := os.MkdirTemp("", "hermes-edge-chaos-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("logs and timelines are kept in %s", folder)
			return
		}
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// play runs one round and reports what is wrong with it.
func (s *stand) play(t *testing.T, plan Plan) {
	t.Helper()
	evidence, violations := newRound(t, s.cluster, s.gateway, plan).run(t.Context())
	t.Logf("round of seed %d: %s", plan.Seed, summary(evidence))
	if len(violations) == 0 {
		return
	}
	t.Errorf("%d violations; the plan was\n%s", len(violations), plan)
	for _, v := range violations[:min(len(violations), maxViolations)] {
		t.Error(v)
	}
	s.timelines(t, evidence, violations)
}

// timelines writes one file for each session that something is wrong with, and
// shows the end of the first.
func (s *stand) timelines(t *testing.T, ev Evidence, violations []Violation) {
	t.Helper()
	var done []string
	for _, v := range violations {
		if v.Session == "" || slices.Contains(done, v.Session) {
			continue
		}
		var text strings.Builder
		if err := WriteTimeline(&text, ev, v.Session); err != nil {
			t.Fatal(err)
		}
		for _, w := range violations {
			if w.Session == v.Session {
				fmt.Fprintln(&text, w)
			}
		}
		file := filepath.Join(s.folder, "timeline-"+v.Session+".txt")
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Error(err)
		}
		if len(done) == 0 {
			lines := strings.Split(strings.TrimSpace(text.String()), "\n")
			lines = lines[max(0, len(lines)-lastLines):]
			for i, line := range lines {
				lines[i] = line[:min(len(line), lineWidth)]
			}
			t.Logf("end of the timeline of %s:\n%s", v.Session, strings.Join(lines, "\n"))
		}
		done = append(done, v.Session)
	}
}

func setting[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

// Without any fault nothing fails but what is scripted to, wherever clients lose
// and change their connections.
func TestCalm(t *testing.T) {
	seed := setting(t, envSeed, 1, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	newStand(t, 1, false).play(t, Plan{Seed: seed, Duration: 15 * time.Second})
}

// Nodes and Redis are killed, paused, drained and restarted; the invariants hold.
func TestChaos(t *testing.T) {
	seed := setting(t, envSeed, uint64(time.Now().Unix()), func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	left := setting(t, envDuration, roundLength, time.ParseDuration)
	faults := setting(t, envFaults, AllFaults, parseFaults)
	s := newStand(t, 3, true)
	for ; left > 0 && !t.Failed(); left -= roundLength {
		s.play(t, NewPlan(seed, min(left, roundLength), 3, faults))
		seed++
	}
}

// parseFaults reads a list of kinds; "none" is none.
func parseFaults(text string) ([]string, error) {
	if text == "none" {
		return nil, nil
	}
	faults := strings.Split(text, ",")
	for _, f := range faults {
		if !slices.Contains(AllFaults, f) {
			return nil, fmt.Errorf("unknown fault %q, there are %v", f, AllFaults)
		}
	}
	return faults, nil
}

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault kinds, as they are named in the environment.
const (
	FaultKill      = "kill"       // a node by SIGKILL
	FaultPause     = "pause"      // a node by SIGSTOP
	FaultDrain     = "drain"      // a node by SIGTERM
	FaultRedisStop = "redisstop"  // Redis by SIGTERM
	FaultRedisKill = "rediskill"  // Redis by SIGKILL
	FaultRedisHalt = "redispause" // Redis by SIGSTOP
)

// AllFaults are the kinds of faults there are.
var AllFaults = []string{FaultKill, FaultPause, FaultDrain, FaultRedisHalt, FaultRedisKill, FaultRedisStop}

func onRedis(fault string) bool { return strings.HasPrefix(fault, "redis") }

// Step is one fault and its healing.
type Step struct {
	At   time.Duration // from the start of the round
	For  time.Duration // until it is healed
	What string
	Node int // not for Redis
}

func (s Step) String() string {
	target := "redis"
	if !onRedis(s.What) {
		target = fmt.Sprintf("node %d", s.Node+1)
	}
	return fmt.Sprintf("%6.1fs %-10s %-7s for %4.1fs", s.At.Seconds(), s.What, target, s.For.Seconds())
}

// Plan is the faults of one round, in order.
type Plan struct {
	Seed     uint64
	Duration time.Duration
	Steps    []Step
}

func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s of faults\n", p.Seed, p.Duration)
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// warmUp is how long a round goes on before its first fault.
const warmUp = 4 * time.Second

// NewPlan makes the plan of a seed: faults of the given kinds on nodes, and on
// Redis, each on a track of its own. Mostly one node at least is left alone.
func NewPlan(seed uint64, duration time.Duration, nodes int, faults []string) Plan {
	p := Plan{Seed: seed, Duration: duration}
	rng := rand.New(rand.NewPCG(seed, 1))
	split := func(redis bool) []string {
		return slices.DeleteFunc(slices.Clone(faults), func(f string) bool { return onRedis(f) != redis })
	}
	p.nodeTrack(rng, nodes, split(false))
	p.redisTrack(rng, split(true))
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}

func (p *Plan) nodeTrack(rng *rand.Rand, nodes int, faults []string) {
	if len(faults) == 0 {
		return
	}
	free := make([]time.Duration, nodes) // when each is whole again
	for at := warmUp; ; at += between(rng, 3*time.Second, 9*time.Second) {
		if at >= p.Duration {
			return
		}
		disturbed := 0
		for _, f := range free {
			if f > at {
				disturbed++
			}
		}
		node := rng.IntN(nodes)
		if free[node] > at || disturbed >= nodes-1 && rng.IntN(10) > 0 {
			continue
		}
		s := Step{At: at, What: faults[rng.IntN(len(faults))], Node: node}
		switch s.What {
		case FaultPause:
			s.For = between(rng, 5*time.Second, 25*time.Second)
		default:
			s.For = between(rng, 500*time.Millisecond, 15*time.Second)
		}
		free[node] = at + s.For + 3*time.Second
		p.Steps = append(p.Steps, s)
	}
}

func (p *Plan) redisTrack(rng *rand.Rand, faults []string) {
	if len(faults) == 0 {
		return
	}
	for at := warmUp + between(rng, 0, 8*time.Second); at < p.Duration; at += between(rng, 10*time.Second, 25*time.Second) {
		s := Step{At: at, What: faults[rng.IntN(len(faults))]}
		switch s.What {
		case FaultRedisHalt:
			s.For = between(rng, 300*time.Millisecond, 12*time.Second)
		default:
			s.For = between(rng, 100*time.Millisecond, 6*time.Second)
		}
		p.Steps = append(p.Steps, s)
		at += s.For
	}
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)))
}

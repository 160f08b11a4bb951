//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const (
	usersPerRound    = 4
	sessionsPerUser  = 3
	clientsPerUser   = 6
	quietLimit       = 2 * time.Minute
	quietPoll        = time.Second
	lastEventsWithin = 10 * time.Second
)

// users sign in with a token each.
var users = []e2e.User{
	{Name: "alice", Token: "secret-of-alice-0123456789"},
	{Name: "bob", Token: "secret-of-bob-0123456789"},
	{Name: "carol", Token: "secret-of-carol-0123456789"},
	{Name: "dave", Token: "secret-of-dave-0123456789"},
}

// kinds are the transports of a user's clients.
var kinds = []wire.Kind{wire.WebSocket, wire.WebSocket, wire.WebSocket, wire.WebSocket, wire.Upgrade, wire.Polling}

// round is one time of faults and the calm behind it.
type round struct {
	t        testing.TB
	cluster  *Cluster
	gateway  *Gateway
	plan     Plan
	clients  []*Client
	sessions map[string][]string // by user
	exist    sync.Map            // sessions somebody has made
	calm     chan struct{}
}

func newRound(t testing.TB, cluster *Cluster, gateway *Gateway, plan Plan) *round {
	r := &round{t: t, cluster: cluster, gateway: gateway, plan: plan, sessions: make(map[string][]string), calm: make(chan struct{})}
	for _, u := range users[:usersPerRound] {
		for i := range sessionsPerUser {
			r.sessions[u.Name] = append(r.sessions[u.Name], fmt.Sprintf("%s-%d-r%d", u.Name, i+1, plan.Seed))
		}
	}
	for i, u := range users[:usersPerRound] {
		others := r.sessions[users[(i+1)%usersPerRound].Name]
		for j := range clientsPerUser {
			r.clients = append(r.clients, r.newClient(u, j, others))
		}
	}
	return r
}

func (r *round) newClient(u e2e.User, n int, foreign []string) *Client {
	name := fmt.Sprintf("%s%d", u.Name[:1], n+1)
	own := r.sessions[u.Name]
	sessions := []string{own[n%len(own)]}
	if n%2 == 1 {
		sessions = append(sessions, own[(n+1)%len(own)])
	}
	rng := rand.New(rand.NewPCG(r.plan.Seed, uint64(len(r.clients))+100))
	c := &Client{
		name: name, user: u.Name, token: u.Token, sessions: sessions, foreign: foreign, nodes: &r.cluster.ways,
		kind: kinds[n%len(kinds)], roams: kinds[n%len(kinds)] != wire.WebSocket, rng: rng, calm: r.calm, know: newKnowledge(&r.exist),
		journal: &Journal{client: name, user: u.Name, clock: r.cluster.clock},
	}
	return c
}

// run plays the round and returns what is wrong with it.
func (r *round) run(ctx context.Context) (Evidence, []Violation) {
	ctx, cancel := context.WithCancel(ctx)
	r.gateway.Forget()
	r.cluster.faults = nil
	var clients sync.WaitGroup
	for _, c := range r.clients {
		clients.Go(func() { c.Run(ctx) })
	}
	r.cluster.Carry(ctx, r.plan)
	r.cluster.Heal()
	close(r.calm)
	stuck := r.awaitQuiet(ctx)
	evidence, violations := r.judge(ctx)
	cancel()
	clients.Wait()
	return evidence, append(stuck, violations...)
}

// awaitQuiet waits until nothing runs or waits, and all clients know what has
// become of their messages.
func (r *round) awaitQuiet(ctx context.Context) []Violation {
	deadline := time.Now().Add(quietLimit)
	for n := 0; ; n++ {
		busy := r.busy(ctx, n)
		if len(busy) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			var found []Violation
			for _, b := range busy {
				found = append(found, Violation{Check: CheckStuck, Detail: b})
			}
			return found
		}
		if !wait(ctx, quietPoll) {
			return nil
		}
	}
}

// busy lists what is not quiet yet.
func (r *round) busy(ctx context.Context, n int) []string {
	var busy []string
	for _, c := range r.clients {
		if !c.Settled() {
			busy = append(busy, fmt.Sprintf("client %s: %d messages without an answer, not following %v",
				c.name, c.know.open(), c.know.notJoined(c.sessions)))
		}
	}
	if len(busy) > 0 {
		return busy
	}
	nodes := r.cluster.ways.nodes
	for _, u := range users[:usersPerRound] {
		snapshots, err := collect(ctx, nodes[n%len(nodes)], u.Token, r.sessions[u.Name])
		if err != nil {
			busy = append(busy, err.Error())
		}
		for session, s := range snapshots {
			if s.Working || len(s.Queued) > 0 {
				busy = append(busy, fmt.Sprintf("session %s: working %t, waiting %v", session, s.Working, s.Queued))
			}
		}
	}
	return busy
}

// judge checks the round; events on their way get some time to arrive.
func (r *round) judge(ctx context.Context) (Evidence, []Violation) {
	deadline := time.Now().Add(lastEventsWithin)
	for {
		evidence := r.evidence(ctx)
		violations := Check(evidence)
		if len(violations) == 0 || time.Now().After(deadline) || !wait(ctx, quietPoll) {
			return evidence, violations
		}
	}
}

func (r *round) evidence(ctx context.Context) Evidence {
	ev := Evidence{
		Owners: make(map[string]string), Journals: make(map[string][]Entry), Final: make(map[string][]Snapshot),
		Faults: slices.Clone(r.cluster.faults), Calm: len(r.plan.Steps) == 0,
	}
	for _, u := range users[:usersPerRound] {
		for _, session := range r.sessions[u.Name] {
			ev.Owners[session] = u.Name
		}
		for _, node := range r.cluster.ways.nodes {
			snapshots, err := collect(ctx, node, u.Token, r.sessions[u.Name])
			if err != nil {
				r.t.Errorf("final snapshots: %v", err)
			}
			for session, s := range snapshots {
				ev.Final[session] = append(ev.Final[session], s)
			}
		}
	}
	for _, c := range r.clients {
		ev.Journals[c.name] = c.journal.Entries()
	}
	ev.Calls = r.gateway.Calls()
	return ev
}

// summary says what a round consisted of.
func summary(ev Evidence) string {
	counts := make(map[string]int)
	for _, journal := range ev.Journals {
		for _, e := range journal {
			switch {
			case e.What == EntryConnected && e.Recovered:
				counts["recovered connections"]++
			case e.What == EntryConnected:
				counts["fresh connections"]++
			case e.What == EntrySent && e.Name == "run":
				counts["messages sent"]++
			case e.What == EntryReceived && e.Name == "resumed":
				counts["snapshots"]++
			case e.What == EntryReceived:
				counts["events"]++
				if e.Name == "run.failed" && parsePayload(e.Payload).QueueID != "" {
					counts["refusals"]++
				}
			}
		}
	}
	for _, final := range ev.Final {
		if len(final) > 0 {
			for _, run := range finished(final[0].Runs) {
				counts["runs "+string(run.Outcome)]++
			}
		}
	}
	counts["gateway calls"] = len(ev.Calls)
	var parts []string
	for what, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

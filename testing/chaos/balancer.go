package chaos

import (
	"math/rand/v2"
	"sync/atomic"
)

// node is where an edge listens.
type node struct{ name, url string }

// balancer knows the nodes, as a load balancer in front of them does.
type balancer struct {
	nodes []node
	up    []*atomic.Bool // as the health checks of the balancer see it
	turn  atomic.Uint64
}

func (b *balancer) add(url, name string) {
	up := new(atomic.Bool)
	up.Store(true)
	b.nodes, b.up = append(b.nodes, node{name, url}), append(b.up, up)
}

// pick returns any node: clients try those that are away too.
func (b *balancer) pick(rng *rand.Rand) node { return b.nodes[rng.IntN(len(b.nodes))] }

// next returns the address of the next node that is not known to be away.
func (b *balancer) next() string {
	for range b.nodes {
		i := int(b.turn.Add(1)) % len(b.nodes)
		if b.up[i].Load() {
			return b.nodes[i].url
		}
	}
	return b.nodes[0].url
}

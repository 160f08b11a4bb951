package edge

import (
	"slices"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
)

// reviewSockets has every connection looked at again, soon, under the settings of
// the moment (R5).
func (c *Core) reviewSockets() {
	select {
	case c.review <- struct{}{}:
	default: // a review that has not begun yet sees these settings too
	}
	c.reviewing.Do(func() { c.work.run(c.reviewer) })
}

func (c *Core) reviewer() {
	for {
		select {
		case <-c.review:
		case <-c.life.Done():
			return
		}
		for _, s := range c.sockets.all() {
			if c.life.Err() != nil {
				return
			}
			c.reviewSocket(s)
		}
	}
}

// reviewSocket decides again about one connection: its rule is gone, or his
// credential has ended: closed, and the client is asked again; other rights: the
// principal is replaced and sessions he may not open any more are left.
func (c *Core) reviewSocket(s *socket) {
	for g := c.gen.Load(); ; {
		c.reviewUnder(g, s)
		settled := g
		if g = c.gen.Load(); g == settled {
			return
		}
	}
}

func (c *Core) reviewUnder(g *generation, s *socket) {
	p := s.principal.Load()
	q, ok := g.review(p)
	if !ok || q.User != s.user || q.Expired(now()) {
		s.disconnect(socketio.ReasonCredentials)
		return
	}
	if equalRights(p, q) {
		return
	}
	s.principal.Store(q)
	s.expireAt(q.Expires)
	if e := c.engine(); e != nil {
		e.Reauthorize(s)
	}
}

func equalRights(p, q *auth.Principal) bool {
	return p.Admin == q.Admin && p.Shared == q.Shared && p.Expires.Equal(q.Expires) && p.Rule == q.Rule &&
		slices.Equal(p.Profiles, q.Profiles) &&
		(p.Ceiling == nil) == (q.Ceiling == nil) && slices.Equal(p.Ceiling, q.Ceiling)
}

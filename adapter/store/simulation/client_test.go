package simulation

import (
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// client sends messages to one session, one after the other, through whichever
// node it happens to reach, and watches the session.
type client struct {
	w        *world
	id       int
	sid      string
	messages int
	sent     int
	finished bool
	watches  bool
	views    []*view
}

// next sends the next message, or is done.
func (c *client) next() {
	if c.sent == c.messages {
		c.finished = true
		return
	}
	c.sent++
	c.send(fmt.Sprintf("c%d-%d", c.id, c.sent))
}

// reach picks a node that takes connections.
func (c *client) reach() *node {
	n := c.w.nodes[c.w.rng.IntN(len(c.w.nodes))]
	if !n.alive {
		return nil
	}
	return n
}

// send is one attempt. Without an answer in time the connection counts as lost,
// and the client library sends the message again.
func (c *client) send(qid string) {
	w := c.w
	n := c.reach()
	if n == nil {
		w.after(500, func() { c.send(qid) })
		return
	}
	open := true
	item := store.Item{
		QID: qid, Run: w.name("run"), Digest: qid, CID: fmt.Sprint("cid", c.id),
		Row: store.NewRow{Role: store.RoleUser, Data: []byte(qid)},
	}
	w.knows(qid, c.sid)
	n.after(5, func() {
		n.accept(c.sid, item, func(t told) {
			if !open {
				return
			}
			open = false
			c.heard(n, qid, item.Run, t)
		})
	})
	w.after(6000, func() {
		if open {
			open = false
			c.send(qid)
		}
	})
}

// heard is the answer to a message.
func (c *client) heard(n *node, qid, run string, t told) {
	w := c.w
	if t == failed && w.chance(60) {
		w.after(w.upTo(100), func() { c.send(qid) })
		return
	}
	if t == accepted {
		w.toldAccepted[qid] = c.sid
		switch {
		case w.chance(15):
			n.after(w.upTo(4000), func() { c.cancel(n, qid) })
		case w.chance(20):
			n.after(w.upTo(5000), func() { n.requestAbort(c.sid, run) })
		}
	}
	w.after(w.upTo(4000), c.next)
}

func (c *client) cancel(n *node, qid string) {
	insist(n, c.w.now+budget, func() (store.CancelResult, error) {
		return c.w.store.CancelQueued(background, c.sid, guard, qid)
	}, func(store.CancelResult, error) {})
}

// caughtUp reports whether the client has seen all of its session.
func (c *client) caughtUp() bool {
	h := c.w.head(c.sid)
	if !h.Exists() {
		return true
	}
	if len(c.views) == 0 {
		return false
	}
	v := c.views[len(c.views)-1]
	at := v.from
	if n := len(v.entries); n > 0 {
		at = v.entries[n-1].Position()
	}
	return v.incarnation == h.Incarnation && at == h.Head
}

// view is what a watcher has seen since a snapshot: it must be the log.
type view struct {
	incarnation string
	from        store.Position
	entries     []store.Entry
}

// watch takes a snapshot and follows the log behind it.
func (c *client) watch() {
	w, n := c.w, c.reach()
	if n == nil || w.chance(5) {
		w.after(2000, c.watch)
		return
	}
	lost := true
	call(n, func() (store.Snapshot, error) { return w.store.Snapshot(background, c.sid) }, func(s store.Snapshot, err error) {
		if !lost {
			return
		}
		lost = false
		if err != nil || s.Session.Incarnation == "" {
			w.after(1000, c.watch)
			return
		}
		v := &view{incarnation: s.Session.Incarnation, from: s.Session.Head}
		c.views = append(c.views, v)
		c.follow(v, v.from)
	})
	w.after(5000, func() {
		if lost {
			lost = false
			c.watch()
		}
	})
}

func (c *client) follow(v *view, at store.Position) {
	w, n := c.w, c.reach()
	if n == nil {
		w.after(1000, func() { c.follow(v, at) })
		return
	}
	lost := true
	call(n, func() (store.ReadResult, error) {
		return w.store.ReadLog(background, c.sid, v.incarnation, at, 20)
	}, func(r store.ReadResult, err error) {
		if !lost {
			return
		}
		lost = false
		switch {
		case err == nil && r.Code != store.OK:
			w.after(500, c.watch)
			return
		case err == nil && len(r.Entries) > 0:
			v.entries = append(v.entries, r.Entries...)
			at = r.Entries[len(r.Entries)-1].Position()
		}
		w.after(500+w.upTo(3000), func() { c.follow(v, at) })
	})
	w.after(5000, func() {
		if lost {
			lost = false
			c.follow(v, at)
		}
	})
}

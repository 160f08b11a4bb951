package main

import "context"

// farClient watches a session on one node while the run belongs to another: what
// it gets has been in the store. The one who sent the message is gone as soon as
// the run has started.
type farClient struct {
	chatClient
	owner string // address of the node that runs
}

// dialFar spreads owners over the nodes and lets the next node watch; with one
// node that is the same.
func dialFar(_ context.Context, t *target, i int) (client, error) {
	nodes := t.nodes()
	c, err := dialChatAt(nodes[(i+1)%len(nodes)].addr)
	if err != nil {
		return nil, err
	}
	return farClient{c, nodes[i%len(nodes)].addr}, nil
}

// start follows the session before there is one, so that the whole text has to
// come as events.
func (c farClient) start(session string, n, rate int) error {
	if err := c.follow(session); err != nil {
		return err
	}
	sender, err := dialChatAt(c.owner)
	if err != nil {
		return err
	}
	defer sender.abandon()
	if err := sender.start(session, n, rate); err != nil {
		return err
	}
	return sender.await("run.started")
}

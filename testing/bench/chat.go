package main

import (
	"bytes"
	"context"
	"fmt"
)

// chatClient is a client of the edge.
type chatClient struct {
	*wire
	seen func(event, packet []byte) error // told of every event, may be nil
}

func dialChat(_ context.Context, t *target, _ int) (client, error) { return dialChatAt(t.addr) }

func dialChatAt(addr string) (chatClient, error) {
	w, err := dialWire(addr, streamBuffer)
	if err != nil {
		return chatClient{}, err
	}
	if err := w.join(chatNamespace); err != nil {
		w.abandon()
		return chatClient{}, err
	}
	return chatClient{wire: w}, nil
}

func (c chatClient) start(session string, n, rate int) error {
	return c.send(runPacket(session, "q-"+session, command(n, rate)))
}

func runPacket(session, queue, input string) []byte {
	return fmt.Appendf(nil, chatEvent+`run",{"session_id":%q,"queue_id":%q,"source":"api_server","input":%q}]`, session, queue, input)
}

// follow asks for a session, known or not yet, and waits for the answer.
func (c chatClient) follow(session string) error {
	if err := c.send(fmt.Appendf(nil, chatEvent+`resume",{"session_id":%q}]`, session)); err != nil {
		return err
	}
	return c.await("resumed")
}

// await reads up to an event. It passes over others, but for a run that fails.
func (c chatClient) await(event string) error {
	for {
		got, packet, err := c.event()
		switch {
		case err != nil:
			return fmt.Errorf("wait for %s: %w", event, err)
		case string(got) == event:
			return nil
		case string(got) == "run.failed":
			return fmt.Errorf("run failed: %.400q", packet)
		}
	}
}

// event returns the next event and its packet.
func (c chatClient) event() (event, packet []byte, err error) {
	if packet, err = c.next(); err != nil {
		return nil, nil, err
	}
	event, err = c.name(packet)
	return event, packet, err
}

// name returns the event that a packet carries and lets it be seen.
func (c chatClient) name(packet []byte) ([]byte, error) {
	event, found := quoted(packet, chatEvent)
	if !found {
		return nil, fmt.Errorf("unexpected packet %.200q", packet)
	}
	if c.seen != nil {
		return event, c.seen(event, packet)
	}
	return event, nil
}

func (c chatClient) finish(d *deltaReader) error {
	for {
		event, packet, err := c.event()
		if err != nil {
			return err
		}
		if over, err := apply(event, packet, d); over || err != nil {
			return err
		}
	}
}

// apply takes an event of a run and reports whether it is the last one.
func apply(event, packet []byte, d *deltaReader) (over bool, err error) {
	switch string(event) {
	case "message.delta":
		text, found := quoted(packet, `"delta":"`)
		if !found {
			return false, fmt.Errorf("delta without a text: %.200q", packet)
		}
		return false, d.take(text)
	case "run.completed":
		return true, nil
	case "run.failed":
		return false, fmt.Errorf("run failed: %.400q", packet)
	}
	return false, nil
}

// offsetOf is the last argument of an event with connection state recovery: where
// the client stands once it has the event. Empty if there is none.
func offsetOf(packet []byte) []byte {
	rest, ok := bytes.CutSuffix(packet, []byte(`"]`))
	if !ok {
		return nil
	}
	return rest[bytes.LastIndexByte(rest, '"')+1:]
}

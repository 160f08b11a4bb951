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
	event, found := quoted(packet, chatEvent)
	if !found {
		return nil, nil, fmt.Errorf("unexpected packet %.200q", packet)
	}
	if c.seen != nil {
		err = c.seen(event, packet)
	}
	return event, packet, err
}

func (c chatClient) finish(d *deltaReader) error {
	for {
		event, packet, err := c.event()
		if err != nil {
			return err
		}
		switch string(event) {
		case "message.delta":
			text, found := quoted(packet, `"delta":"`)
			if !found {
				return fmt.Errorf("delta without a text: %.200q", packet)
			}
			if err := d.take(text); err != nil {
				return err
			}
		case "run.completed":
			return nil
		case "run.failed":
			return fmt.Errorf("run failed: %.400q", packet)
		}
	}
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

package socketio

import (
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

// RawPacket is a Socket.IO packet as it is on the wire: the text without the
// Engine.IO type, and all attachments that belong to it.
type RawPacket struct {
	Text        []byte
	Attachments [][]byte
}

// RawNamespace takes the packets of a namespace that is not decoded here.
type RawNamespace interface {
	// Packet is called for one packet after the other. While it runs the next
	// ones wait, and when many wait the client is not read.
	Packet(p RawPacket)
	// Closed is called once, after the last Packet.
	Closed(reason Reason)
}

// SendRaw sends a packet as it is, attachments directly behind the text. A
// DISCONNECT or CONNECT_ERROR ends the relayed namespace on this side too.
func (c *Conn) SendRaw(p RawPacket) error {
	h, err := decodeHeader(p.Text)
	if err != nil {
		return err
	}
	if h.attachments != len(p.Attachments) {
		return fmt.Errorf("%w: %d attachments, %d announced", errMalformed, len(p.Attachments), h.attachments)
	}
	ms := make([]engineio.Message, 0, 1+len(p.Attachments))
	ms = append(ms, engineio.Message{Data: p.Text})
	for _, a := range p.Attachments {
		ms = append(ms, engineio.Message{Data: a, Binary: true})
	}
	if h.typ != typeDisconnect && h.typ != typeConnectError {
		return c.engine.Send(ms...)
	}
	if ep, _ := c.find(h.namespace); ep != nil {
		if raw, ok := ep.(*rawEndpoint); ok {
			c.leave(raw)
			defer raw.end(ReasonServerNamespace)
		}
	}
	return c.engine.SendControl(ms...)
}

// rawEndpoint is a relayed namespace of a connection.
type rawEndpoint struct {
	conn *Conn
	name string
	box  mailbox

	// Only the worker uses these.
	target RawNamespace
	ended  bool
}

func newRawEndpoint(c *Conn, name string) *rawEndpoint { return &rawEndpoint{conn: c, name: name} }

// Namespace is the name of the namespace.
func (e *rawEndpoint) Namespace() string { return e.name }

func (e *rawEndpoint) deliver(p inbound) { e.conn.post(&e.box, p, e.work) }

func (e *rawEndpoint) end(reason Reason) {
	e.conn.force(&e.box, inbound{kind: kindEnd, head: header{id: int64(reason)}}, e.work)
}

func (e *rawEndpoint) work() {
	defer e.conn.srv.workers.done()
	for {
		items := e.box.take()
		if len(items) == 0 {
			return
		}
		for i := range items {
			e.handle(&items[i])
		}
	}
}

func (e *rawEndpoint) handle(p *inbound) {
	switch {
	case e.ended:
	case p.kind == kindEnd:
		e.ended = true
		e.conn.release()
		if e.target != nil {
			e.target.Closed(Reason(p.head.id))
		}
	case e.target == nil:
		e.open(p)
	default:
		e.target.Packet(RawPacket{Text: p.text, Attachments: p.attachments})
	}
}

// open asks the hook who takes the namespace.
func (e *rawEndpoint) open(p *inbound) {
	connect, ok := connectPayload(p.head)
	if !ok {
		e.conn.malformed(errMalformed)
		return
	}
	if e.target, ok = e.conn.srv.unknown(e.conn, e.name, connect); ok {
		return
	}
	e.target, e.ended = nil, true
	e.conn.release()
	e.conn.leave(e)
	e.conn.refuse(e.name, &Refused{Message: "Invalid namespace"})
}

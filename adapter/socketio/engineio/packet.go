package engineio

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Transport is how a connection is carried.
type Transport uint8

// The transports.
const (
	Polling Transport = iota
	WebSocket
)

// String is the name on the wire and in metrics.
func (t Transport) String() string {
	if t == WebSocket {
		return "websocket"
	}
	return "polling"
}

// Engine.IO packet types.
const (
	typeOpen    = '0'
	typeClose   = '1'
	typePing    = '2'
	typePong    = '3'
	typeMessage = '4'
	typeUpgrade = '5'
	typeNoop    = '6'
)

const separator = '\x1e'

// Message is one outgoing Engine.IO message. Data may be shared by many
// connections and is never changed. Tail is appended to the text on the wire,
// so that a shared text can end differently for each receiver.
type Message struct {
	Data   []byte
	Tail   string
	Binary bool

	typ byte // packet type of a text packet, 0 = message
}

// messageOverhead is what a queued message costs beside its bytes; counting
// it bounds the number of queued messages as well as their size.
const messageOverhead = 48

func (m *Message) cost() int { return len(m.Data) + len(m.Tail) + messageOverhead }

func (m *Message) packetType() byte {
	if m.typ == 0 {
		return typeMessage
	}
	return m.typ
}

// errMalformed is a packet or payload that is not Engine.IO.
var errMalformed = errors.New("malformed Engine.IO packet")

// packet is one decoded incoming packet; data is a part of the body it came in.
type packet struct {
	typ    byte
	binary bool
	data   []byte
}

// decodePayload splits a polling body and gives each packet to yield, in order.
func decodePayload(body []byte, yield func(packet) error) error {
	for {
		part, rest, more := bytes.Cut(body, []byte{separator})
		p, err := decodePacket(part)
		if err != nil {
			return err
		}
		if err := yield(p); err != nil {
			return err
		}
		if !more {
			return nil
		}
		body = rest
	}
}

// decodePacket decodes one packet of a polling body, where binary is base64.
func decodePacket(part []byte) (packet, error) {
	if len(part) == 0 {
		return packet{}, fmt.Errorf("%w: empty", errMalformed)
	}
	if part[0] != 'b' {
		return decodeText(part)
	}
	enc := bytes.TrimRight(part[1:], "=")
	data := make([]byte, base64.RawStdEncoding.DecodedLen(len(enc)))
	n, err := base64.RawStdEncoding.Decode(data, enc)
	if err != nil {
		return packet{}, fmt.Errorf("%w: bad base64", errMalformed)
	}
	return packet{typ: typeMessage, binary: true, data: data[:n]}, nil
}

// decodeText decodes a text packet. The caller of the WebSocket path has
// checked the encoding of the whole message already; here it is cheap again.
func decodeText(part []byte) (packet, error) {
	if len(part) == 0 || part[0] < typeOpen || part[0] > typeNoop {
		return packet{}, fmt.Errorf("%w: unknown type", errMalformed)
	}
	if !utf8.Valid(part) {
		return packet{}, fmt.Errorf("%w: not UTF-8", errMalformed)
	}
	return packet{typ: part[0], data: part[1:]}, nil
}

// appendPayload appends m to a polling response body.
func appendPayload(dst []byte, m *Message) []byte {
	if len(dst) > 0 {
		dst = append(dst, separator)
	}
	if m.Binary {
		dst = append(dst, 'b')
		return base64.StdEncoding.AppendEncode(dst, m.Data)
	}
	dst = append(dst, m.packetType())
	dst = append(dst, m.Data...)
	return append(dst, m.Tail...)
}

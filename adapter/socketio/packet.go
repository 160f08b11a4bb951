package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

// Socket.IO packet types as they are on the wire.
const (
	typeConnect      = '0'
	typeDisconnect   = '1'
	typeEvent        = '2'
	typeAck          = '3'
	typeConnectError = '4'
	typeBinaryEvent  = '5'
	typeBinaryAck    = '6'
)

const (
	maxAttachments = 256
	maxNamespace   = 256 // bytes of a namespace's name
	maxIDDigits    = 15
	noID           = -1
)

var errMalformed = errors.New("malformed Socket.IO packet")

// header is a decoded packet without its payload's inside.
type header struct {
	typ         byte
	attachments int
	namespace   []byte
	id          int64 // noID if none
	payload     []byte
}

var rootNamespace = []byte("/")

// decodeHeader reads a text packet. Its slices are parts of b.
func decodeHeader(b []byte) (header, error) {
	h := header{namespace: rootNamespace, id: noID}
	if len(b) == 0 || b[0] < typeConnect || b[0] > typeBinaryAck {
		return h, fmt.Errorf("%w: unknown type", errMalformed)
	}
	h.typ = b[0]
	b = b[1:]
	if h.typ == typeBinaryEvent || h.typ == typeBinaryAck {
		n, digits := leadingNumber(b)
		if digits == 0 || digits > 4 || n > maxAttachments || digits >= len(b) || b[digits] != '-' {
			return h, fmt.Errorf("%w: bad attachment count", errMalformed)
		}
		h.attachments = int(n)
		b = b[digits+1:]
	}
	if len(b) > 0 && b[0] == '/' {
		ns, rest, _ := bytes.Cut(b, []byte{','})
		if len(ns) > maxNamespace {
			return h, fmt.Errorf("%w: namespace too long", errMalformed)
		}
		h.namespace, b = ns, rest
	}
	if n, digits := leadingNumber(b); digits > 0 && h.typ != typeConnect {
		if digits > maxIDDigits {
			return h, fmt.Errorf("%w: bad ack id", errMalformed)
		}
		h.id, b = n, b[digits:]
	}
	h.payload = b
	return h, h.check()
}

// check validates what can be seen without parsing the payload.
func (h *header) check() error {
	first := byte(0)
	if len(h.payload) > 0 {
		first = h.payload[0]
	}
	ok := true
	switch h.typ {
	case typeConnect:
		ok = first == 0 || first == '{'
	case typeDisconnect:
		ok = first == 0
	case typeEvent, typeBinaryEvent:
		ok = first == '['
	case typeAck, typeBinaryAck:
		ok = first == '[' && h.id != noID
	}
	if !ok {
		return fmt.Errorf("%w: bad payload", errMalformed)
	}
	return nil
}

func leadingNumber(b []byte) (n int64, digits int) {
	for digits < len(b) && b[digits] >= '0' && b[digits] <= '9' {
		if digits <= maxIDDigits {
			n = n*10 + int64(b[digits]-'0')
		}
		digits++
	}
	return n, digits
}

// splitArray splits a JSON array into its elements, which are parts of b.
func splitArray(b []byte) ([]json.RawMessage, error) {
	if !json.Valid(b) {
		return nil, fmt.Errorf("%w: payload is not JSON", errMalformed)
	}
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '[' {
		return nil, fmt.Errorf("%w: payload is not an array", errMalformed)
	}
	b = b[1 : len(b)-1]
	args := make([]json.RawMessage, 0, 2)
	start, depth, quoted := 0, 0, false
	for i := 0; i < len(b); i++ {
		switch ch := b[i]; {
		case quoted:
			if ch == '\\' {
				i++
			} else if ch == '"' {
				quoted = false
			}
		case ch == '"':
			quoted = true
		case ch == '[' || ch == '{':
			depth++
		case ch == ']' || ch == '}':
			depth--
		case ch == ',' && depth == 0:
			args = append(args, bytes.TrimSpace(b[start:i:i]))
			start = i + 1
		}
	}
	if last := bytes.TrimSpace(b[start:len(b):len(b)]); len(last) > 0 {
		args = append(args, last)
	}
	return args, nil
}

// decodeEvent takes the name and the arguments out of an event payload.
func decodeEvent(payload []byte) (string, []json.RawMessage, error) {
	args, err := splitArray(payload)
	if err != nil {
		return "", nil, err
	}
	if len(args) == 0 {
		return "", nil, fmt.Errorf("%w: event without a name", errMalformed)
	}
	name, err := eventName(args[0])
	return name, args[1:], err
}

func eventName(raw json.RawMessage) (string, error) {
	switch {
	case raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0:
		raw = raw[1 : len(raw)-1]
	case raw[0] == '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return "", fmt.Errorf("%w: event name", errMalformed)
		}
		raw = json.RawMessage(s)
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'): // a number may be a name
		return "", fmt.Errorf("%w: event name is not a string", errMalformed)
	}
	switch string(raw) {
	case "connect", "connect_error", "disconnect", "disconnecting", "newListener", "removeListener":
		return "", fmt.Errorf("%w: reserved event name", errMalformed)
	}
	return string(raw), nil
}

// Packet is an event encoded once for many sockets. It is immutable.
type Packet struct {
	head        []byte // the text up to, not including, the closing bracket
	attachments [][]byte
}

// NewPacket encodes an event with one argument, which must be valid JSON, or
// with none if payload is nil.
func NewPacket(namespace, event string, payload json.RawMessage) *Packet {
	b := make([]byte, 0, len(namespace)+len(event)+len(payload)+8)
	b = appendHead(b, typeEvent, 0, namespace, noID)
	b = append(b, '[')
	b = appendString(b, event)
	if payload != nil {
		b = append(b, ',')
		b = append(b, payload...)
	}
	return &Packet{head: b}
}

// Len is the size of the packet in bytes, attachments included.
func (p *Packet) Len() int {
	n := len(p.head) + 1
	for _, a := range p.attachments {
		n += len(a)
	}
	return n
}

const closing = "]"

// message is the Engine.IO message of the packet's text.
func (p *Packet) message(offset string) engineio.Message {
	m := engineio.Message{Data: p.head, Tail: closing}
	if offset != "" {
		m.Tail = offsetTail(offset)
	}
	return m
}

// offsetTail is the end of a packet that carries an offset.
func offsetTail(offset string) string {
	if isPlain(offset) {
		return `,"` + offset + `"]`
	}
	return "," + string(appendString(nil, offset)) + closing
}

// isPlain reports whether s needs no escaping in JSON.
func isPlain(s string) bool {
	for i := 0; i < len(s); i++ {
		if ch := s[i]; ch < ' ' || ch == '"' || ch == '\\' || ch > '~' {
			return false
		}
	}
	return true
}

// encode makes a packet from any values. []byte values become attachments.
func encode(typ byte, namespace string, id int64, event string, args []any) (*Packet, error) {
	n := 0
	for _, a := range args {
		if _, ok := a.([]byte); ok {
			n++
		}
	}
	if n > 0 {
		typ += typeBinaryEvent - typeEvent
	}
	p := &Packet{}
	b := make([]byte, 0, 128)
	b = appendHead(b, typ, n, namespace, id)
	b = append(b, '[')
	if event != "" {
		b = appendString(b, event)
	}
	for i, a := range args {
		if i > 0 || event != "" {
			b = append(b, ',')
		}
		var err error
		if b, err = p.appendArg(b, a); err != nil {
			return nil, fmt.Errorf("encode argument %d of %q: %w", i, event, err)
		}
	}
	p.head = b
	return p, nil
}

func (p *Packet) appendArg(b []byte, arg any) ([]byte, error) {
	switch v := arg.(type) {
	case []byte:
		b = append(b, `{"_placeholder":true,"num":`...)
		b = strconv.AppendInt(b, int64(len(p.attachments)), 10)
		p.attachments = append(p.attachments, v)
		return append(b, '}'), nil
	case json.RawMessage:
		return append(b, v...), nil
	}
	return appendJSON(b, arg)
}

// appendHead appends everything before the payload.
func appendHead(b []byte, typ byte, attachments int, namespace string, id int64) []byte {
	b = append(b, typ)
	if typ == typeBinaryEvent || typ == typeBinaryAck {
		b = strconv.AppendInt(b, int64(attachments), 10)
		b = append(b, '-')
	}
	if namespace != "/" {
		b = append(b, namespace...)
		b = append(b, ',')
	}
	if id != noID {
		b = strconv.AppendInt(b, id, 10)
	}
	return b
}

// appendString appends a JSON string, the usual plain ones without a detour.
func appendString(b []byte, s string) []byte {
	if isPlain(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	b, _ = appendJSON(b, s) // a string always encodes
	return b
}

// appendJSON appends v as JSON.stringify would: without escaping for HTML.
func appendJSON(b []byte, v any) ([]byte, error) {
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return b, err
	}
	return bytes.TrimSuffix(w.Bytes(), []byte{'\n'}), nil
}

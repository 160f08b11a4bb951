package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gobwas/ws"
)

const (
	dialTimeout = 30 * time.Second
	maxMessage  = 16 << 20
)

// errClosed is a close frame from the server.
var errClosed = errors.New("the server closed the WebSocket")

// wire is a WebSocket that carries Engine.IO packets, as little of it as a load
// generator needs. It serves one goroutine. Heartbeats are answered on the way.
type wire struct {
	net.Conn
	pings func() // told of every heartbeat, may be nil

	r       *bufio.Reader
	header  [ws.MaxHeaderSize]byte
	payload []byte
	out     []byte
}

// dialWire opens a WebSocket and reads the Engine.IO open packet. buffer is the
// size of the read buffer: ten thousand idle sockets want a small one.
func dialWire(addr string, buffer int) (*wire, error) {
	nc, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: nc, r: bufio.NewReaderSize(nc, buffer)}
	if err := w.handshake(addr); err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

func (w *wire) handshake(addr string) error {
	if err := w.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"+
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", addr)
	if err != nil {
		return err
	}
	response, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 200)) // only to tell more
		return fmt.Errorf("handshake: %s: %s", response.Status, body)
	}
	open, err := w.next()
	if err == nil && (len(open) == 0 || open[0] != '0') {
		err = fmt.Errorf("open packet expected, got %q", open)
	}
	return err
}

// join connects to a namespace ("/" or chatNamespace) and waits for the reply.
func (w *wire) join(namespace string) error {
	_, err := w.welcome(namespace)
	return err
}

// welcome joins a namespace and returns the payload of the reply, which is valid
// until the next packet.
func (w *wire) welcome(namespace string) ([]byte, error) {
	prefix := connectPrefix(namespace)
	if err := w.send([]byte(prefix + `{}`)); err != nil {
		return nil, err
	}
	reply, err := w.next()
	if err != nil {
		return nil, err
	}
	payload, joined := bytes.CutPrefix(reply, []byte(prefix))
	if !joined {
		return nil, fmt.Errorf("join %s: %s", namespace, reply)
	}
	return payload, nil
}

// connectPrefix is how a CONNECT packet and the reply to it begin.
func connectPrefix(namespace string) string {
	if namespace == "/" {
		return "40"
	}
	return "40" + namespace + ","
}

func (w *wire) abandon() { reset(w.Conn) }

// reset breaks a connection in a way that leaves no port waiting.
func reset(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // the socket goes either way
	}
	_ = nc.Close()
}

// next returns the next packet but heartbeats; it is valid until the next call.
func (w *wire) next() ([]byte, error) {
	for {
		packet, err := w.message()
		if err != nil || len(packet) != 1 || packet[0] != '2' {
			return packet, err
		}
		if w.pings != nil {
			w.pings()
		}
		if err := w.send([]byte("3")); err != nil {
			return nil, err
		}
	}
}

// message returns the next text message; none of the servers sends fragments.
func (w *wire) message() ([]byte, error) {
	for {
		h, err := ws.ReadHeaderBuffer(w.r, w.header[:])
		if err != nil {
			return nil, err
		}
		if h.Length > maxMessage {
			return nil, fmt.Errorf("message of %d bytes", h.Length)
		}
		if int64(cap(w.payload)) < h.Length {
			w.payload = make([]byte, h.Length)
		}
		w.payload = w.payload[:h.Length]
		if _, err := io.ReadFull(w.r, w.payload); err != nil {
			return nil, err
		}
		switch h.OpCode {
		case ws.OpText:
			if h.Fin {
				return w.payload, nil
			}
		case ws.OpClose:
			return nil, errClosed
		case ws.OpPong:
			continue
		}
		return nil, fmt.Errorf("unexpected frame, opcode %d, final %t", h.OpCode, h.Fin)
	}
}

// send writes one text message in one frame with one system call.
func (w *wire) send(packet []byte) error {
	w.out = appendFrame(w.out[:0], packet)
	_, err := w.Write(w.out)
	return err
}

// mask is not random: nobody between the generator and the server can be fooled.
var mask = [4]byte{0x12, 0x9f, 0x33, 0x5c}

// appendFrame appends a masked text frame.
func appendFrame(b, payload []byte) []byte {
	const (
		finalText = 0x81
		masked    = 0x80
	)
	switch n := len(payload); {
	case n < 126:
		b = append(b, finalText, masked|byte(n))
	case n <= 0xffff:
		b = append(b, finalText, masked|126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, finalText, masked|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, mask[:]...)
	start := len(b)
	b = append(b, payload...)
	ws.Cipher(b[start:], mask, 0)
	return b
}

package engineio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

const (
	readBufferSize = 512
	// A peer-declared length is believed only this far before bytes arrive.
	firstAllocation = 32 << 10
)

// frameError carries the close reason that a bad frame leads to.
type frameError struct {
	reason Reason
	code   ws.StatusCode
	err    error
}

func (e *frameError) Error() string { return e.err.Error() }
func (e *frameError) Unwrap() error { return e.err }

func protocolError(err error) error {
	return &frameError{reason: ReasonParseError, code: ws.StatusProtocolError, err: err}
}

var errNotUTF8 = errors.New("text message is not UTF-8")

// message is a complete data message or a control frame. If owned is false
// the payload lives in the reader's buffer until the next call.
type message struct {
	op      ws.OpCode
	payload []byte
	owned   bool
}

// frameReader reads client frames with one small buffer. Messages that do not
// fit are read straight into a slice of their own, never above limit.
type frameReader struct {
	src      io.Reader
	early    *[]byte // bytes that came with the HTTP request, nil once used up
	limit    int64
	partial  []byte
	buf      [readBufferSize]byte
	hdr      [ws.MaxHeaderSize]byte
	r, w     uint16
	state    ws.State
	fragment ws.OpCode
}

func (f *frameReader) init(src io.Reader, early []byte, limit int64) {
	f.src, f.limit = src, limit
	if len(early) > 0 {
		f.early = &early
	}
	f.state = ws.StateServerSide
}

// Read serves buffered bytes first. It lets the header parser read from the buffer.
func (f *frameReader) Read(p []byte) (int, error) {
	if f.r == f.w {
		if err := f.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.buf[f.r:f.w])
	f.r += uint16(n)
	return n, nil
}

// fill reads more bytes behind the buffered ones.
func (f *frameReader) fill() error {
	if f.r == f.w {
		f.r, f.w = 0, 0
	}
	if f.early != nil {
		n := copy(f.buf[f.w:], *f.early)
		f.w += uint16(n)
		if *f.early = (*f.early)[n:]; len(*f.early) == 0 {
			f.early = nil
		}
		return nil
	}
	n, err := f.src.Read(f.buf[f.w:])
	f.w += uint16(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// idle reports whether the next message has to be waited for.
func (f *frameReader) idle() bool { return f.r == f.w && f.early == nil && f.partial == nil }

// next returns the next data message or control frame.
func (f *frameReader) next() (message, error) {
	for {
		// Waiting happens here, where the stack is shallow.
		if f.r == f.w {
			if err := f.fill(); err != nil {
				return message{}, err
			}
		}
		h, err := ws.ReadHeaderBuffer(f, f.hdr[:])
		if err != nil {
			if errors.Is(err, ws.ErrHeaderLengthMSB) || errors.Is(err, ws.ErrHeaderLengthUnexpected) {
				err = protocolError(err)
			}
			return message{}, err
		}
		if err := ws.CheckHeader(h, f.state); err != nil {
			return message{}, protocolError(err)
		}
		if h.OpCode.IsControl() {
			p, err := f.inPlace(h)
			return message{op: h.OpCode, payload: p}, err
		}
		if h.Length > f.limit-int64(len(f.partial)) {
			return message{}, &frameError{
				reason: ReasonTooBig, code: ws.StatusMessageTooBig,
				err: fmt.Errorf("message of at least %d bytes, limit is %d", h.Length+int64(len(f.partial)), f.limit),
			}
		}
		m, done, err := f.data(h)
		if done || err != nil {
			return m, err
		}
	}
}

// data reads the payload of one data frame; done means the message is complete.
func (f *frameReader) data(h ws.Header) (m message, done bool, err error) {
	if h.Fin && h.OpCode != ws.OpContinuation && h.Length <= readBufferSize {
		m = message{op: h.OpCode}
		if m.payload, err = f.inPlace(h); err == nil {
			err = checkText(m)
		}
		return m, true, err
	}
	if h.OpCode != ws.OpContinuation {
		f.fragment = h.OpCode
	}
	if f.partial, err = f.appendPayload(f.partial, h); err != nil {
		return message{}, false, err
	}
	if !h.Fin {
		f.state = f.state.Set(ws.StateFragmented)
		return message{}, false, nil
	}
	f.state = f.state.Clear(ws.StateFragmented)
	m = message{op: f.fragment, payload: f.partial, owned: true}
	f.partial = nil
	return m, true, checkText(m)
}

func checkText(m message) error {
	if m.op == ws.OpText && !utf8.Valid(m.payload) {
		return &frameError{reason: ReasonParseError, code: ws.StatusInvalidFramePayloadData, err: errNotUTF8}
	}
	return nil
}

// inPlace gathers a payload that fits the buffer, inside the buffer.
func (f *frameReader) inPlace(h ws.Header) ([]byte, error) {
	n := uint16(h.Length)
	if int(f.r)+int(n) > readBufferSize {
		copy(f.buf[:], f.buf[f.r:f.w])
		f.w -= f.r
		f.r = 0
	}
	for f.w-f.r < n {
		if err := f.fill(); err != nil {
			return nil, err
		}
	}
	p := f.buf[f.r : f.r+n]
	f.r += n
	ws.Cipher(p, h.Mask, 0)
	return p, nil
}

// appendPayload reads a payload behind dst, growing with what really arrives.
func (f *frameReader) appendPayload(dst []byte, h ws.Header) ([]byte, error) {
	for done := int64(0); done < h.Length; {
		if len(dst) == cap(dst) {
			grow := max(int64(len(dst)), firstAllocation)
			grown := make([]byte, len(dst), int64(len(dst))+min(h.Length-done, grow))
			copy(grown, dst)
			dst = grown
		}
		room := dst[len(dst):min(int64(cap(dst)), int64(len(dst))+h.Length-done)]
		n, err := f.readDirect(room)
		if err != nil {
			return dst, err
		}
		ws.Cipher(room[:n], h.Mask, int(done&3))
		dst = dst[:len(dst)+n]
		done += int64(n)
	}
	return dst, nil
}

// readDirect takes buffered bytes, or reads from the network past the buffer.
func (f *frameReader) readDirect(p []byte) (int, error) {
	if f.r < f.w || f.early != nil {
		return f.Read(p)
	}
	n, err := f.src.Read(p)
	if n > 0 {
		return n, nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return 0, err
}

// appendFrameHeader appends the header of an unmasked, final frame.
func appendFrameHeader(dst []byte, op ws.OpCode, n int) []byte {
	dst = append(dst, 0x80|byte(op))
	switch {
	case n < 126:
		return append(dst, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
	}
}

// appendControl appends a whole control frame.
func appendControl(dst []byte, op ws.OpCode, payload []byte) []byte {
	return append(appendFrameHeader(dst, op, len(payload)), payload...)
}

// appendMessageHeader appends everything of m's frame that comes before Data.
func appendMessageHeader(dst []byte, m *Message) []byte {
	if m.Binary {
		return appendFrameHeader(dst, ws.OpBinary, len(m.Data))
	}
	dst = appendFrameHeader(dst, ws.OpText, 1+len(m.Data)+len(m.Tail))
	return append(dst, m.packetType())
}

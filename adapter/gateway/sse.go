package gateway

import (
	"bytes"
	"errors"
	"io"
)

// ErrLineTooLong is returned by [SSEReader.Next] for a frame over the ceiling.
var ErrLineTooLong = errors.New("event stream line is over the limit")

const (
	sseStartBuffer = 8 << 10
	sseKeepBuffer  = 64 << 10
	maxEmptyReads  = 100
)

// Frame is one frame or one comment of an event stream. Its slices are valid
// until the next call of [SSEReader.Next].
type Frame struct {
	Comment bool   // a comment line; Event and Data are empty
	Event   []byte // value of the last event field, nil if none
	Data    []byte // data values joined by LF
	// Unterminated marks a last frame that the end of the stream cut off
	// before its blank line; its last line may be incomplete.
	Unterminated bool
}

// SSEReader splits a text/event-stream into frames. It accepts LF, CRLF and
// bare CR, drops one leading byte order mark, joins bytes before anything
// decodes them (so characters may be cut by reads), and ignores id, retry and
// unknown fields. Comments are reported at once, also inside a frame, which
// they do not disturb. Memory stays below the ceiling plus a constant. An
// SSEReader serves one goroutine.
type SSEReader struct {
	src  io.Reader
	max  int
	wait func() // called before each read from src; may be nil
	err  error  // what src ended with

	store []byte // what buf lies in
	buf   []byte // unread bytes from the frame's first line on
	line  int    // offset of the current line in buf
	seen  int    // offset up to which buf holds no line end
	first bool   // no line was read yet
	cr    bool   // the last line ended with CR: an LF that follows belongs to it

	event, data span
	hasData     bool
	joined      []byte // data of a frame with several data lines
	multi       bool
	used        int // bytes of buf that belong to the frame handed out last
}

type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// NewSSEReader reads frames from src; one frame may have at most limit bytes
// (DefaultMaxLine if limit is not positive).
func NewSSEReader(src io.Reader, limit int64) *SSEReader {
	if limit <= 0 {
		limit = DefaultMaxLine
	}
	return &SSEReader{src: src, max: int(limit), first: true}
}

// Next returns the next frame that has data, or the next comment. At the end it
// returns a last unterminated frame, then the error of the source: io.EOF for
// an orderly end. Bytes that came with the error are used first.
func (r *SSEReader) Next() (Frame, error) {
	r.release()
	for {
		line, ok := r.readLine()
		if !ok {
			if r.err != nil {
				return r.last()
			}
			if err := r.fill(); err != nil {
				return Frame{}, err
			}
			continue
		}
		if frame, ok := r.accept(line); ok {
			return frame, nil
		}
	}
}

// release forgets the frame handed out last and gives a large buffer back.
func (r *SSEReader) release() {
	if r.used == 0 {
		return
	}
	rest := r.buf[r.used:]
	r.line -= r.used
	r.seen -= r.used
	r.used = 0
	switch {
	case cap(r.store) > sseKeepBuffer && len(rest) <= sseStartBuffer:
		r.store = make([]byte, 2*sseStartBuffer)
		r.buf = r.store[:copy(r.store, rest)]
	case len(rest) == 0:
		r.buf = r.store[:0]
	default:
		r.buf = rest
	}
	if cap(r.joined) > sseKeepBuffer {
		r.joined = nil
	}
}

// readLine returns the span of the next complete line without its end.
func (r *SSEReader) readLine() (span, bool) {
	if r.cr && r.line < len(r.buf) {
		r.cr = false
		if r.buf[r.line] == '\n' {
			r.line++
			r.seen = max(r.seen, r.line)
		}
	}
	pending := r.buf[r.seen:]
	end := bytes.IndexByte(pending, '\n')
	if end >= 0 {
		pending = pending[:end]
	}
	if cr := bytes.IndexByte(pending, '\r'); cr >= 0 {
		end, r.cr = cr, true
	}
	if end < 0 {
		r.seen = len(r.buf)
		return span{}, false
	}
	line := span{r.line, r.seen + end}
	r.line = line.to + 1
	r.seen = r.line
	return r.withoutMark(line), true
}

func (r *SSEReader) withoutMark(line span) span {
	if r.first {
		r.first = false
		if bytes.HasPrefix(line.of(r.buf), []byte("\xef\xbb\xbf")) {
			line.from += 3
		}
	}
	return line
}

// fill reads more bytes behind buf, moving or growing it as needed.
func (r *SSEReader) fill() error {
	if len(r.buf) > r.max {
		return ErrLineTooLong
	}
	if len(r.buf) == cap(r.buf) {
		if 2*len(r.buf) >= len(r.store) {
			size := min(max(sseStartBuffer, 2*len(r.buf)), r.max+sseStartBuffer)
			r.store = make([]byte, size)
		}
		r.buf = r.store[:copy(r.store, r.buf)]
	}
	if r.wait != nil {
		r.wait()
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err != nil {
			r.err = err
			return nil
		}
		if n > 0 {
			return nil
		}
	}
	r.err = io.ErrNoProgress
	return nil
}

// accept takes one line into the frame and returns what it completes.
func (r *SSEReader) accept(line span) (Frame, bool) {
	text := line.of(r.buf)
	switch {
	case len(text) == 0:
		return r.dispatch(false)
	case text[0] == ':':
		if !r.hasData && r.event == (span{}) {
			r.used = r.line
		}
		return Frame{Comment: true}, true
	}
	name, value := text, span{line.to, line.to}
	if colon := bytes.IndexByte(text, ':'); colon >= 0 {
		name = text[:colon]
		value.from = line.from + colon + 1
		if value.from < value.to && r.buf[value.from] == ' ' {
			value.from++
		}
	}
	switch string(name) {
	case "event":
		r.event = value
	case "data":
		r.addData(value)
	}
	return Frame{}, false
}

func (r *SSEReader) addData(value span) {
	if !r.hasData {
		r.hasData, r.data = true, value
		return
	}
	if !r.multi {
		r.multi = true
		r.joined = append(r.joined[:0], r.data.of(r.buf)...)
	}
	r.joined = append(r.joined, '\n')
	r.joined = append(r.joined, value.of(r.buf)...)
}

// dispatch ends the frame; one without data is dropped.
func (r *SSEReader) dispatch(unterminated bool) (Frame, bool) {
	frame := Frame{Unterminated: unterminated}
	complete := r.hasData
	if complete {
		frame.Data = r.data.of(r.buf)
		if r.multi {
			frame.Data = r.joined
		}
		if r.event.to > r.event.from {
			frame.Event = r.event.of(r.buf)
		}
	}
	r.event, r.data, r.hasData, r.multi = span{}, span{}, false, false
	r.used = r.line
	if !complete {
		r.release()
	}
	return frame, complete
}

// last hands out what the end of the stream left unfinished.
func (r *SSEReader) last() (Frame, error) {
	if r.line < len(r.buf) {
		line := r.withoutMark(span{r.line, len(r.buf)})
		r.line, r.seen = len(r.buf), len(r.buf)
		if line.from < line.to {
			if frame, ok := r.accept(line); ok {
				return frame, nil
			}
		}
	}
	if frame, ok := r.dispatch(true); ok {
		return frame, nil
	}
	return Frame{}, r.err
}

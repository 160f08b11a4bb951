package engineio

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

// What decodes must encode to something that decodes to the same packets.
func FuzzDecodePayload(f *testing.F) {
	for _, s := range []string{"4hello", "4a\x1e4b\x1e4", "4hello\x1ebAQIDBA==", "b", "1", "3", "4\xff", "\x1e", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var packets []packet
		collect := func(p packet) error {
			packets = append(packets, p)
			return nil
		}
		if err := decodePayload(body, collect); err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		var out []byte
		for _, p := range packets {
			out = appendPayload(out, &Message{Data: p.data, Binary: p.binary, typ: p.typ})
		}
		i := 0
		err := decodePayload(out, func(p packet) error {
			if w := packets[i]; p.typ != w.typ || p.binary != w.binary || !bytes.Equal(p.data, w.data) {
				t.Fatalf("packet %d: %v, want %v", i, p, w)
			}
			i++
			return nil
		})
		if err != nil || i != len(packets) {
			t.Fatalf("%d of %d packets: %v", i, len(packets), err)
		}
	})
}

const fuzzLimit = 2000

// Any bytes, in any pieces, give the same messages within the limit.
func FuzzFrameReader(f *testing.F) {
	masked := wiretest.Masked
	for _, b := range [][]byte{
		masked(ws.OpText, true, "4hello"),
		masked(ws.OpBinary, true, string(make([]byte, 600))),
		append(masked(ws.OpText, false, "4a"), masked(ws.OpContinuation, true, "b")...),
		append(masked(ws.OpPing, true, "p"), masked(ws.OpClose, true, "\x03\xe8")...),
		masked(ws.OpText, true, string(bytes.Repeat([]byte("x"), fuzzLimit+1))),
		{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
		{0x81, 0x01, 'x'},
	} {
		f.Add(b, uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, early uint8) {
		whole, err1 := readAll(t, data, bytes.NewReader(nil))
		head := min(int(early), len(data))
		pieces, err2 := readAll(t, data[:head], iotest.OneByteReader(bytes.NewReader(data[head:])))
		if len(whole) != len(pieces) || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%d and %d messages, %v and %v", len(whole), len(pieces), err1, err2)
		}
		for i := range whole {
			if whole[i].op != pieces[i].op || !bytes.Equal(whole[i].payload, pieces[i].payload) {
				t.Fatalf("message %d differs", i)
			}
		}
	})
}

func readAll(t *testing.T, early []byte, src io.Reader) ([]message, error) {
	var r frameReader
	r.init(src, early, fuzzLimit)
	var all []message
	for {
		m, err := r.next()
		if err != nil {
			return all, err
		}
		if len(m.payload) > fuzzLimit || cap(r.partial) > fuzzLimit {
			t.Fatalf("%d bytes above the limit", len(m.payload))
		}
		m.payload = bytes.Clone(m.payload)
		all = append(all, m)
	}
}

package embedded

import (
	"bytes"
	"errors"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

func TestRecordsRoundTrip(t *testing.T) {
	it := item("q1")
	it.Row.Data = []byte{0, 255, '"', '\n'}
	b, err := encodeItem(&it)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeItem(b)
	if err != nil || got.QID != it.QID || got.Run != it.Run || !bytes.Equal(got.Row.Data, it.Row.Data) || !bytes.Equal(got.Options, it.Options) {
		t.Fatalf("item: %+v, %v", got, err)
	}
	for n := range b {
		if _, err := decodeItem(b[:n]); !errors.Is(err, errRecord) {
			t.Fatalf("an item cut at %d: %v", n, err)
		}
	}
	if _, err := decodeItem(append(b, 0)); !errors.Is(err, errRecord) {
		t.Fatalf("an item with a tail: %v", err)
	}
}

// FuzzDecode: whatever is in the file, decoding answers an error or a value that
// encodes to something that decodes.
func FuzzDecode(f *testing.F) {
	it := item("q1")
	seed, err := encodeItem(&it)
	if err != nil {
		f.Fatal(err)
	}
	root, err := encode(memory.Root{Version: 1, Incarnation: "ep", Run: "r", Upstream: []byte("u")})
	if err != nil {
		f.Fatal(err)
	}
	row, err := encodeRow(&store.Row{NewRow: store.NewRow{Role: store.RoleTool, Data: []byte("{}")}, ID: 1, Run: "r"})
	if err != nil {
		f.Fatal(err)
	}
	entries, err := encodeLog([]store.Entry{{NewEntry: store.NewEntry{Kind: store.KindEvent, Name: "n", Payload: []byte("{}")}, Run: "r"}, {QueueIDs: []string{"q"}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range [][]byte{seed, root, row, entries, nil, {0}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again := func(enc []byte, err error, decode func([]byte) error) {
			if err == nil {
				err = decode(enc)
			}
			if err != nil {
				t.Fatalf("%q does not come back: %v", b, err)
			}
		}
		if it, err := decodeItem(b); err == nil {
			enc, err := encodeItem(it)
			again(enc, err, func(e []byte) error { _, err := decodeItem(e); return err })
		}
		if r, err := decodeRow(7, b); err == nil {
			enc, err := encodeRow(&r)
			again(enc, err, func(e []byte) error { _, err := decodeRow(7, e); return err })
		}
		if r, err := decodeRoot(b); err == nil {
			enc, err := encode(r)
			again(enc, err, func(e []byte) error { _, err := decodeRoot(e); return err })
		}
		if l, err := decodeLog(b); err == nil {
			enc, err := encodeLog(l)
			again(enc, err, func(e []byte) error { _, err := decodeLog(e); return err })
		}
		if r, err := decodeLedger(b); err == nil {
			enc, err := encode(r)
			again(enc, err, func(e []byte) error { _, err := decodeLedger(e); return err })
		}
	})
}

package socketio

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// What decodes is re-encoded to the same packet, and the hand-made splitting
// of the payload agrees with encoding/json.
func FuzzDecodePacket(f *testing.F) {
	for _, s := range []string{
		`0`, `0/custom,{"token":"abc"}`, `1/custom,`, `2["message",1,"2",{"3":[true]}]`, `2/a,456["x"]`, `3456[1]`,
		`4{"message":"x"}`, `52-["m",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`, `61-/x,7[null]`,
		`2[ "a\"]" , [1,[2,"],["]] ]`, `2[]`, `2[1,]`, `20["x"]`, `5999-[`, `2["\u0061"]`, `abc`, ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := decodeHeader(text)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again := appendHead(nil, h.typ, h.attachments, string(h.namespace), h.id)
		again = append(again, h.payload...)
		h2, err := decodeHeader(again)
		if err != nil || h2.typ != h.typ || h2.id != h.id || h2.attachments != h.attachments ||
			!bytes.Equal(h2.namespace, h.namespace) || !bytes.Equal(h2.payload, h.payload) {
			t.Fatalf("%q became %q: %+v %v", text, again, h2, err)
		}
		var want []json.RawMessage
		wantErr := json.Unmarshal(h.payload, &want)
		got, err := splitArray(h.payload)
		if want == nil && wantErr == nil { // null is no array
			wantErr = errMalformed
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("payload %q: %v, encoding/json says %v", h.payload, err, wantErr)
		}
		if err != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("payload %q: %d elements, want %d", h.payload, len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("element %d of %q: %q, want %q", i, h.payload, got[i], want[i])
			}
		}
		_, _, _ = decodeEvent(h.payload) // must not panic
	})
}

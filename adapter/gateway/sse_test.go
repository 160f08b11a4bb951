package gateway

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// collect reads a stream to its end; each frame becomes one string.
func collect(src io.Reader, limit int64) ([]string, error) {
	var out []string
	reader := NewSSEReader(src, limit)
	for {
		frame, err := reader.Next()
		if err != nil {
			return out, err
		}
		switch {
		case frame.Comment:
			out = append(out, "#")
		case frame.Unterminated:
			out = append(out, string(frame.Event)+"~"+string(frame.Data))
		default:
			out = append(out, string(frame.Event)+"="+string(frame.Data))
		}
	}
}

// pieces hands out a body in the given pieces, one per read.
type pieces struct{ list [][]byte }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.list) > 0 && len(p.list[0]) == 0 {
		p.list = p.list[1:]
	}
	if len(p.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.list[0])
	p.list[0] = p.list[0][n:]
	return n, nil
}

func splitAt(body string, at int) io.Reader {
	return &pieces{[][]byte{[]byte(body[:at]), []byte(body[at:])}}
}

var sseCases = []struct {
	name, body string
	want       []string
}{
	{"empty", "", nil},
	{"one frame", "event: a\ndata: x\n\n", []string{"a=x"}},
	{"SSE-01 CRLF", "event: a\r\ndata: x\r\n\r\ndata: y\r\n\r\n", []string{"a=x", "=y"}},
	{"SSE-01 bare CR", "event: a\rdata: x\r\rdata: y\r\r", []string{"a=x", "=y"}},
	{"mixed line ends", "event: a\r\ndata: x\n\rdata: y\r\n\n", []string{"a=x", "=y"}},
	{"SSE-02 raw characters", "data: 你好🌍é\n\n", []string{"=你好🌍é"}},
	{"SSE-03 leading mark dropped once", "\ufeffdata: \ufeffx\n\n", []string{"=\ufeffx"}},
	{"SSE-03 second mark stays in the name", "\ufeff\ufeffdata: x\n\ndata: y\n\n", []string{"=y"}},
	{"SSE-03 mark before a comment", "\ufeff: hi\n\n", []string{"#"}},
	{"SSE-05 comments", ": keepalive\n\n:\n\ndata: x\n\n: stream closed\n\n", []string{"#", "#", "=x", "#"}},
	{"SSE-05 comment inside a frame", "event: a\n: keepalive\ndata: x\n\n", []string{"#", "a=x"}},
	{"SSE-06 no event field", "data: x\n\n", []string{"=x"}},
	{"no space after the colon", "event:a\ndata:x\n\n", []string{"a=x"}},
	{"one space only is dropped", "data:  x\n\n", []string{"= x"}},
	{"several data lines", "data: x\ndata: y\ndata:\n\n", []string{"=x\ny\n"}},
	{"field without a colon", "data\n\n", []string{"="}},
	{"GW-11 id, retry, unknown", "id: 7\nretry: 10\nfoo: bar\ndata: x\n\n", []string{"=x"}},
	{"frame without data", "event: a\n\ndata: x\n\n", []string{"=x"}},
	{"last event field counts", "event: a\nevent: b\ndata: x\n\n", []string{"b=x"}},
	{"many blank lines", "\n\n\ndata: x\n\n\n\n", []string{"=x"}},
	{"T18 unterminated frame", "data: x\n\nevent: b\ndata: y\n", []string{"=x", "b~y"}},
	{"T18 unterminated line", "data: x\n\ndata: y", []string{"=x", "~y"}},
	{"unterminated event only", "data: x\n\nevent: y", []string{"=x"}},
	{"unterminated comment", "data: x\n\n: y", []string{"=x", "#"}},
}

func TestSSEReader(t *testing.T) {
	for _, test := range sseCases {
		t.Run(test.name, func(t *testing.T) {
			check := func(how string, src io.Reader) {
				t.Helper()
				got, err := collect(src, 0)
				if err != io.EOF || !reflect.DeepEqual(got, test.want) {
					t.Errorf("%s: got %q, %v; want %q", how, got, err, test.want)
				}
			}
			check("whole", strings.NewReader(test.body))
			check("byte by byte", iotest.OneByteReader(strings.NewReader(test.body)))
			check("data with the error", iotest.DataErrReader(strings.NewReader(test.body)))
			for at := range test.body {
				check("split", splitAt(test.body, at))
			}
		})
	}
}

// A bare CR must end a line at once, not when the next byte comes (SSE-01).
func TestSSEReaderDoesNotWaitAfterCR(t *testing.T) {
	src, out := io.Pipe()
	defer src.Close()
	go out.Write([]byte("data: x\r\r"))
	frame, err := NewSSEReader(src, 0).Next()
	if err != nil || string(frame.Data) != "x" {
		t.Fatalf("got %q, %v", frame.Data, err)
	}
}

// SSE-04, GW-10: lines far over 64 KiB pass, lines over the ceiling fail.
func TestSSEReaderLongLines(t *testing.T) {
	for _, size := range []int{64<<10 + 1, 1<<20 + 1, 8 << 20} {
		body := "data: " + strings.Repeat("x", size) + "\n\ndata: after\n\n"
		got, err := collect(strings.NewReader(body), 0)
		if err != io.EOF || len(got) != 2 || len(got[0]) != size+1 || got[1] != "=after" {
			t.Errorf("%d bytes: %d frames, %v", size, len(got), err)
		}
	}
	const limit = 100_000
	endless := io.MultiReader(strings.NewReader("data: x\n\ndata: "), zeros{})
	reader := NewSSEReader(endless, limit)
	if frame, err := reader.Next(); err != nil || string(frame.Data) != "x" {
		t.Fatalf("first frame: %q, %v", frame.Data, err)
	}
	for range 2 {
		if _, err := reader.Next(); !errors.Is(err, ErrLineTooLong) {
			t.Fatalf("got %v, want ErrLineTooLong", err)
		}
	}
	if len(reader.store) > 2*limit {
		t.Errorf("buffer grew to %d bytes with a limit of %d", len(reader.store), limit)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

// Memory goes back to normal after a long line (SSE-04).
func TestSSEReaderGivesLargeBufferBack(t *testing.T) {
	body := "data: " + strings.Repeat("x", 4<<20) + "\n\ndata: y\n\ndata: z\n\n"
	reader := NewSSEReader(strings.NewReader(body), 0)
	for range 3 {
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(reader.store) > sseKeepBuffer {
		t.Errorf("buffer still has %d bytes", len(reader.store))
	}
}

// Frames of a long stream reuse the buffer.
func TestSSEReaderAllocations(t *testing.T) {
	frame := "event: a\ndata: " + strings.Repeat("x", 150) + "\n\n"
	reader := NewSSEReader(strings.NewReader(strings.Repeat(frame, 2000)), 0)
	if _, err := reader.Next(); err != nil {
		t.Fatal(err)
	}
	got := testing.AllocsPerRun(1500, func() {
		if _, err := reader.Next(); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations per frame", got)
	}
}

func TestSSEReaderReportsSourceError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("data: x\n\ndata: y\n"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := collect(broken, 0)
	if !errors.Is(err, io.ErrUnexpectedEOF) || !reflect.DeepEqual(got, []string{"=x", "~y"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzSSEReader(f *testing.F) {
	for _, test := range sseCases {
		f.Add([]byte(test.body), 3)
	}
	f.Fuzz(func(t *testing.T, body []byte, at int) {
		whole, wholeErr := collect(bytes.NewReader(body), 1<<12)
		single, singleErr := collect(iotest.OneByteReader(bytes.NewReader(body)), 1<<12)
		if errors.Is(wholeErr, ErrLineTooLong) || errors.Is(singleErr, ErrLineTooLong) {
			return
		}
		if wholeErr != io.EOF || singleErr != io.EOF || !reflect.DeepEqual(whole, single) {
			t.Fatalf("whole %q %v, single %q %v", whole, wholeErr, single, singleErr)
		}
		if at = max(0, min(at, len(body))); at > 0 {
			if split, _ := collect(splitAt(string(body), at), 1<<12); !reflect.DeepEqual(whole, split) {
				t.Fatalf("whole %q, split at %d %q", whole, at, split)
			}
		}
	})
}

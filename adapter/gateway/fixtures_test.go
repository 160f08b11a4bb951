package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	body, err := fakegateway.Fixture(name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// mapped is everything that comes out of one stream.
type mapped struct {
	transcript *transcript
	outcome    Outcome
	class      Class
	text       string
}

// feed runs a stream through reader and mapper, without HTTP.
func feed(src io.Reader) mapped {
	h := &transcript{}
	m := newMapper(h, func(s string) string { return Redact(s) })
	reader := NewSSEReader(src, 0)
	for !m.over {
		frame, err := reader.Next()
		if errors.Is(err, ErrLineTooLong) {
			return mapped{h, m.outcome, ClassLineTooLong, ""}
		}
		if err != nil {
			return mapped{h, m.outcome, ClassLost, ""}
		}
		m.frame(frame)
	}
	if m.err != nil {
		return mapped{h, m.outcome, m.err.Class, m.err.Text}
	}
	return mapped{transcript: h, outcome: m.outcome}
}

func (m mapped) same(other mapped) bool {
	return m.transcript.String() == other.transcript.String() && m.class == other.class && m.text == other.text &&
		m.outcome.Text == other.outcome.Text && m.outcome.Usage == other.outcome.Usage && m.outcome.Kind == other.outcome.Kind
}

// offsets are all split points of a small body; of a larger one every line
// edge with its neighbours, and a sample in between.
func offsets(body []byte) []int {
	var at []int
	for i := range body {
		edge := body[i] == '\n' || (i > 0 && body[i-1] == '\n')
		if len(body) <= 2000 || edge || i%(1+len(body)*len(body)/1_500_000) == 0 {
			at = append(at, i)
		}
	}
	return at
}

var fixtureWants = []struct {
	name   string
	class  Class
	kind   Kind
	text   string // beginning of the streamed text
	starts int
	calls  int
	ends   int
	reason string
}{
	{name: "responses_text", kind: Completed, text: "晚上好 🌙！今天的天气是多云，22°C — 带把伞 ☂️。\n\n祝你愉快 👩‍💻"},
	{name: "responses_text_crlf_utf8", kind: Completed},
	{name: "responses_tools", kind: Completed, text: "我先看看目录里有什么。\n\n有两个文件，逐个读取。", starts: 4, calls: 4, ends: 4},
	{name: "responses_long_line", kind: Completed, starts: 1, calls: 1, ends: 1},
	{name: "responses_failed", class: ClassProviderFailed, text: "正在查询，请稍", starts: 1, calls: 1, ends: 1, reason: "Error code: 503 - upstream overloaded"},
	{name: "responses_masked_failure", class: ClassMasked, text: "HTTP 401: Incorrect API key", reason: "Model provider: HTTP 401: Incorrect API key"},
	{name: "responses_masked_retry", class: ClassMasked, text: "API call failed after 3 retries: HTTP 500: 模型过载", reason: "Model provider: API call failed after 3 retries: HTTP 500: 模型过载"},
	{name: "responses_truncated", class: ClassLost, starts: 1, calls: 1, ends: 1},
}

// GW-8, GW-9, GW-15, GW-20, GW-28: every recorded stream gives the expected
// events and one outcome, however its bytes are cut.
func TestFixtures(t *testing.T) {
	for _, want := range fixtureWants {
		t.Run(want.name, func(t *testing.T) {
			body := fixture(t, want.name)
			whole := feed(bytes.NewReader(body))
			if whole.class != want.class || whole.outcome.Kind != want.kind || whole.text != want.reason {
				t.Fatalf("class %v, kind %v, reason %q", whole.class, whole.outcome.Kind, whole.text)
			}
			if whole.outcome.Masked != (want.class == ClassMasked) {
				t.Errorf("masked = %v", whole.outcome.Masked)
			}
			streamed := whole.transcript.text.String()
			if !strings.HasPrefix(streamed, want.text) {
				t.Errorf("streamed text %q", streamed)
			}
			if want.class != ClassLost && whole.outcome.Text != streamed {
				t.Errorf("final text %q differs from the streamed %q", whole.outcome.Text, streamed)
			}
			for prefix, n := range map[string]int{"created ": 1, "start ": want.starts, "call ": want.calls, "output ": want.ends} {
				if got := strings.Count("\n"+whole.transcript.String(), "\n"+prefix); got != n {
					t.Errorf("%d lines %q, want %d", got, prefix, n)
				}
			}
			if len(whole.outcome.ExtraItems) != 0 {
				t.Errorf("items reported twice: %+v", whole.outcome.ExtraItems)
			}
			if single := feed(iotest.OneByteReader(bytes.NewReader(body))); !whole.same(single) {
				t.Errorf("byte by byte differs:\n%s", single.transcript)
			}
			for _, at := range offsets(body) {
				if split := feed(splitAt(string(body), at)); !whole.same(split) {
					t.Fatalf("split at %d differs:\n%s", at, split.transcript)
				}
			}
		})
	}
}

// SSE-01, SSE-02: the fixture with CRLF and raw UTF-8 says the same as the other.
func TestFixtureEncodingsAgree(t *testing.T) {
	lf := feed(bytes.NewReader(fixture(t, "responses_text")))
	crlf := feed(bytes.NewReader(fixture(t, "responses_text_crlf_utf8")))
	cr := feed(strings.NewReader(strings.ReplaceAll(string(fixture(t, "responses_text")), "\n", "\r")))
	if lf.transcript.text.String() != crlf.transcript.text.String() || !lf.same(cr) {
		t.Errorf("LF %q\nCRLF %q\nCR %q", lf.transcript.text.String(), crlf.transcript.text.String(), cr.transcript.text.String())
	}
}

// T29: the long result arrives whole, not as the terminal event trims it.
func TestFixtureLongLine(t *testing.T) {
	got := feed(bytes.NewReader(fixture(t, "responses_long_line")))
	longest := 0
	for _, line := range got.transcript.lines {
		longest = max(longest, len(line))
	}
	if longest < 80_000 {
		t.Errorf("longest event has %d bytes", longest)
	}
}

// A cut anywhere never completes a turn and never invents text.
func TestTruncationNeverCompletes(t *testing.T) {
	body := fixture(t, "responses_text")
	end := bytes.LastIndex(body, []byte("}"))
	full := feed(bytes.NewReader(body)).transcript.text.String()
	for at := range end {
		got := feed(bytes.NewReader(body[:at]))
		if got.class != ClassLost || !strings.HasPrefix(full, got.transcript.text.String()) {
			t.Fatalf("cut at %d: class %v, text %q", at, got.class, got.transcript.text.String())
		}
	}
	// T18 against chat-run 4.1: a last frame without its blank line counts if its JSON is whole.
	if got := feed(bytes.NewReader(body[:end+1])); got.outcome.Kind != Completed {
		t.Errorf("complete JSON without line end: %v", got.class)
	}
}

func FuzzMapper(f *testing.F) {
	for _, name := range fakegateway.Fixtures() {
		body, err := fakegateway.Fixture(name)
		if err != nil {
			f.Fatal(err)
		}
		if len(body) < 8000 {
			f.Add(body)
		}
	}
	f.Add([]byte(`data: {"type":"response.completed","response":{"output":[{"type":"message","content":[{"text":1}]},[],{"output":[[{"a":"\ud800"}]]}]}}` + "\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		whole := feed(bytes.NewReader(body))
		if single := feed(iotest.OneByteReader(bytes.NewReader(body))); !whole.same(single) {
			t.Fatalf("whole:\n%s\nbyte by byte:\n%s", whole.transcript, single.transcript)
		}
		if text := whole.transcript.String() + whole.text + whole.outcome.Text; strings.ToValidUTF8(text, "") != text {
			t.Fatal("invalid UTF-8 came out")
		}
	})
}

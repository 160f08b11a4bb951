package gateway

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// frames makes a stream of data-only frames.
func frames(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

const (
	created   = `{"type":"response.created","response":{"id":"resp_1","model":"m"}}`
	completed = `{"type":"response.completed","response":{"id":"resp_1","output":[],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}}`
)

func delta(text string) string {
	b, err := json.Marshal(map[string]string{"type": "response.output_text.delta", "delta": text})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestMapper(t *testing.T) {
	tests := []struct {
		name, stream string
		want         string // transcript
		class        Class
		reason       string
		final        string
	}{
		{
			name:   "SSE-06 type in the JSON only",
			stream: frames(created, delta("Hi"), completed),
			want:   "created resp_1 m\ndelta Hi",
		}, {
			name:   "SSE-06 type in the event field only",
			stream: "event: response.output_text.delta\ndata: {\"delta\":\"Hi\"}\n\n" + frames(completed),
			want:   "delta Hi",
		}, {
			name:   "SSE-06 type as JSON event",
			stream: frames(`{"event":"response.output_text.delta","delta":"Hi"}`, completed),
			want:   "delta Hi",
		}, {
			name:   "SSE-06 contradiction: the JSON type wins",
			stream: "event: response.completed\ndata: " + delta("Hi") + "\n\n" + frames(completed),
			want:   "delta Hi",
		}, {
			name:   "delta may be called text, empty ones are dropped",
			stream: frames(`{"type":"response.output_text.delta","text":"Hi"}`, delta(""), `{"type":"response.output_text.delta","delta":5}`, completed),
			want:   "delta Hi",
		}, {
			name: "SSE-07 unknown kinds never become text",
			stream: frames(`{"type":"response.in_progress","delta":"a"}`, `{"type":"response.content_part.added","text":"b"}`,
				`{"type":"hermes.tool.progress","label":"c"}`, `{"type":"response.future.thing","delta":"d"}`, delta("Hi"), completed),
			want: "delta Hi",
		}, {
			name:   "not JSON is skipped",
			stream: frames("[DONE]", "{", `{"type":"response.output_text.delta","delta":"x"`, "null", `{"type":"response.output_text.delta" "delta":"x"}`, delta("Hi"), completed),
			want:   "delta Hi",
		}, {
			name:   "SSE-10 error event",
			stream: frames(created, delta("Half"), `{"type":"error","error":{"message":"overloaded"}}`),
			want:   "created resp_1 m\ndelta Half", class: ClassProviderFailed, reason: "overloaded",
		}, {
			name:   "SSE-10 error event, message beside",
			stream: "event: error\ndata: {\"message\":\"overloaded\"}\n\n",
			class:  ClassProviderFailed, reason: "overloaded",
		}, {
			name:   "failed without a reason",
			stream: frames(`{"type":"response.failed","response":{"error":null}}`),
			class:  ClassProviderFailed, reason: "Agent run failed",
		}, {
			name:   "AUT-08 failed with secrets",
			stream: frames(`{"type":"response.failed","response":{"error":{"message":"bad key sk-abcdefgh12345678 at 10.0.0.7:8080"}}}`),
			class:  ClassProviderFailed, reason: "bad key *** at [host]",
		}, {
			name: "SSE-11 output forms",
			stream: frames(
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"Error: no such file"}]}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"c","output":"plain"}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"d","output":{"k": 1}}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"e","output":[1, 2]}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"f","output":null}}`,
				completed),
			want: "output a Error: no such file\noutput b one\ntwo\noutput c plain\noutput d {\"k\": 1}\noutput e [1, 2]\noutput f ",
		}, {
			name: "chat-run 4.1 forms of a call; once per call id",
			stream: frames(
				`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"x","arguments":"{\"p\": 1}"}}`,
				`{"type":"response.output_item.added","output_item":{"type":"function_call","id":"b","function":{"name":"y","arguments":{"q":2}}}}`,
				`{"type":"response.output_item.added","call_id":"c"}`,
				`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"d"}}`,
				`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"again"}}`,
				`{"type":"response.output_item.added","item":{"type":"function_call","name":"no id"}}`,
				completed),
			want: "start a x {\"p\": 1}\nstart b y {\"q\":2}\nstart d  {}",
		}, {
			name: "SSE-12 the whole text again at the end",
			stream: frames(delta("One."), `{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"x"}}`,
				`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"a","output":"r"}}`,
				delta(" Two."), `{"type":"response.output_text.done","text":"One. Two."}`,
				`{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"One. Two."}]}}`,
				`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"One. Two."}]}]}}`),
			want: "delta One.\nstart a x {}\noutput a r\ndelta  Two.\ntext done", final: "One. Two.",
		}, {
			name:   "SSE-13 answer only in the final envelope",
			stream: frames(created, `{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"Hel"},{"type":"text","text":"lo"},{"type":"x","text":"!"}]}]}}`),
			want:   "created resp_1 m", final: "Hello",
		}, {
			name:   "SSE-13 answer only as output_text",
			stream: frames(`{"type":"response.completed","response":{"output":[],"output_text":"Hello"}}`),
			final:  "Hello",
		}, {
			name:   "RUN-04 nothing at all",
			stream: frames(created, `{"type":"response.completed","response":{"output":[],"usage":{"input_tokens":0}}}`),
			want:   "created resp_1 m", class: ClassEmptyAnswer,
			reason: "The agent finished with an empty answer; check the gateway's model and provider key",
		}, {
			name:   "RUN-04 tools but no text",
			stream: frames(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"x"}}`, `{"type":"response.completed","response":{"output":[]}}`),
			want:   "start a x {}",
		}, {
			name:   "RUN-04 text without usage",
			stream: frames(delta("a"), delta("b"), `{"type":"response.completed","response":{"output":[]}}`),
			want:   "delta a\ndelta b",
		}, {
			name:   "RUN-08 only the first end counts",
			stream: frames(delta("a"), completed, `{"type":"response.failed","response":{}}`, delta("late"), completed),
			want:   "delta a",
		}, {
			name:   "RUN-01 no end",
			stream: frames(created, delta("a")) + ": stream closed\n\n",
			want:   "created resp_1 m\ndelta a\nkeep-alive", class: ClassLost,
		}, {
			name:   "GW-9 surrogate pairs, lone surrogates, odd escapes",
			stream: frames(`{"type":"response.output_text.delta","delta":"\ud83c\udf19 \ud83c \udf19 \u00e9\/\q\u12"}`, completed),
			want:   "delta 🌙 \ufffd \ufffd é/q\ufffd12",
		}, {
			name:   "invalid UTF-8 never comes out",
			stream: frames("{\"type\":\"response.output_text.delta\",\"delta\":\"a\xffb\"}", completed),
			want:   "delta a\ufffdb",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := feed(strings.NewReader(test.stream))
			if got.transcript.String() != test.want {
				t.Errorf("events\n%s\nwant\n%s", got.transcript, test.want)
			}
			if got.class != test.class || got.text != test.reason || got.outcome.Text != test.final {
				t.Errorf("class %v, reason %q, final text %q", got.class, got.text, got.outcome.Text)
			}
			if (got.outcome.Kind == Completed) != (test.class == ClassUnknown) {
				t.Errorf("kind %v with class %v", got.outcome.Kind, got.class)
			}
		})
	}
}

// T3, GW-28: only the exact shape of a masked failure is taken for one.
func TestMasked(t *testing.T) {
	const (
		done  = `{"type":"response.output_text.done"}`
		call  = `{"type":"response.output_item.added","item":{"type":"function_call","call_id":"a","name":"x"}}`
		zeros = `{"type":"response.completed","response":{"output":[],"usage":{"input_tokens":0,"output_tokens":0}}}`
		none  = `{"type":"response.completed","response":{"output":[]}}`
	)
	tests := []struct {
		name   string
		stream string
		masked bool
	}{
		{"HTTP status", frames(delta("HTTP 401: no"), done, zeros), true},
		{"retries", frames(delta("API call failed after 3 retries: x"), done, zeros), true},
		{"warning sign", frames(delta("\u26a0\ufe0f Provider authentication failed"), done, zeros), true},
		{"no usage", frames(delta("HTTP 500: x"), done, none), true},
		{"real usage", frames(delta("HTTP 401: no"), done, completed), false},
		{"two deltas", frames(delta("HTTP 401: "), delta("no"), done, zeros), false},
		{"a tool ran", frames(call, delta("HTTP 401: no"), done, zeros), false},
		{"a tool between", frames(delta("HTTP 401: no"), call, done, zeros), false},
		{"no text done", frames(delta("HTTP 401: no"), zeros), false},
		{"other text", frames(delta("The HTTP 401: status"), done, zeros), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := feed(strings.NewReader(test.stream))
			if got.outcome.Masked != test.masked || (got.class == ClassMasked) != test.masked {
				t.Errorf("masked %v, class %v", got.outcome.Masked, got.class)
			}
		})
	}
}

func TestExtraItems(t *testing.T) {
	got := feed(strings.NewReader(frames(
		`{"type":"response.output_item.done","item":{"type":"function_call","call_id":"a","name":"x"}}`,
		`{"type":"response.output_item.done","item":{"type":"function_call_output","call_id":"a","output":"full"}}`,
		`{"type":"response.completed","response":{"output":[{"type":"function_call","call_id":"a","name":"x"},{"type":"function_call_output","call_id":"a","output":"trim"},`+
			`{"type":"function_call","call_id":"b","name":"y","arguments":"{}"},{"type":"function_call_output","call_id":"b","output":[{"type":"input_text","text":"r"}]}]}}`)))
	items := got.outcome.ExtraItems
	if len(items) != 2 || items[0].Call == nil || items[0].Call.Name != "y" || items[1].Output == nil || items[1].Output.Output != "r" {
		t.Errorf("extra items %+v", items)
	}
}

func TestUsage(t *testing.T) {
	got := readUsage([]byte(`{"inputTokens":5,"input_tokens":0,"output_tokens":6.0,"total_tokens":-1,"cache_read_tokens":"x","reasoning_tokens":1e300}`))
	want := Usage{InputTokens: 5, OutputTokens: 6, ReasoningTokens: 1 << 52}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Nothing in the mapper may grow without a bound.
func TestTooManyToolCalls(t *testing.T) {
	m := newMapper(&transcript{}, func(s string) string { return s })
	for i := range maxToolCalls + 1 {
		id, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		m.frame(Frame{Data: []byte(`{"type":"response.output_item.added","item":{"type":"function_call","call_id":"c` + string(id) + `"}}`)})
	}
	if m.err == nil || m.err.Class != ClassTooLarge || len(m.calls) != maxToolCalls {
		t.Errorf("err %v, %d calls", m.err, len(m.calls))
	}
}

// The hot path costs one allocation: the text itself.
func TestDeltaAllocations(t *testing.T) {
	body := strings.Repeat("event: response.output_text.delta\ndata: "+
		`{"type": "response.output_text.delta", "item_id": "msg_4b1d0c8a7e2f46359d10aa57", "output_index": 0, "content_index": 0, "delta": "\u7684\u5929\u6c14 is fine", "logprobs": [], "sequence_number": 3}`+"\n\n", 3000)
	reader := NewSSEReader(strings.NewReader(body), 0)
	m := newMapper(discard{}, nil)
	step := func() {
		frame, err := reader.Next()
		if err != nil {
			t.Fatal(err)
		}
		m.frame(frame)
	}
	step()
	if got := testing.AllocsPerRun(2000, step); got > 1 {
		t.Errorf("%v allocations per delta", got)
	}
}

type discard struct{}

func (discard) Created(Created)       {}
func (discard) TextDelta(string)      {}
func (discard) TextDone()             {}
func (discard) ToolStarted(ToolCall)  {}
func (discard) ToolCallDone(ToolCall) {}
func (discard) ToolOutput(ToolOutput) {}
func (discard) KeepAlive()            {}
func (discard) Pause()                {}

func BenchmarkDelta(b *testing.B) {
	const frame = "event: response.output_text.delta\ndata: " +
		`{"type": "response.output_text.delta", "item_id": "msg_4b1d0c8a7e2f46359d10aa57", "output_index": 0, "content_index": 0, "delta": "1781690400123456789 load", "logprobs": [], "sequence_number": 3}` + "\n\n"
	reader := NewSSEReader(&repeat{text: frame}, 0)
	m := newMapper(discard{}, nil)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := reader.Next()
		if err != nil {
			b.Fatal(err)
		}
		m.frame(f)
	}
}

// repeat is an endless stream of one text.
type repeat struct {
	text string
	at   int
}

func (r *repeat) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		k := copy(b[n:], r.text[r.at:])
		n += k
		r.at = (r.at + k) % len(r.text)
	}
	return n, nil
}

// The scanner agrees with encoding/json on every valid string and object.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83c\udf19","b":[1,{"c":"]}"}],"d":null}`))
	f.Add([]byte(`{"a\"":"x\\","b":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(raw, &want) != nil || want == nil {
			return
		}
		o := openObject(raw)
		var d decoder
		for {
			key, value, more := o.next()
			if !more {
				break
			}
			if !json.Valid(value) {
				t.Fatalf("value %q of %q is no JSON", value, key)
			}
			var text string
			got, ok := d.text(value)
			if isText := value[0] == '"' && json.Unmarshal(value, &text) == nil; ok != isText {
				t.Fatalf("%q: text %v", value, ok)
			}
			if ok && utf8.Valid(value) && got != text {
				t.Fatalf("%q: got %q, want %q", value, got, text)
			}
		}
		if !o.done() {
			t.Fatalf("%q not walked to its end", raw)
		}
	})
}

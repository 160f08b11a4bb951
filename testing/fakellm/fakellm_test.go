package fakellm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

func start(t *testing.T, model *Server) string {
	t.Helper()
	server := httptest.NewServer(model)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		server.Close()
	})
	return server.URL
}

func post(t *testing.T, base string, stream bool, messages ...Message) *http.Response {
	t.Helper()
	var wire []map[string]any
	for _, message := range messages {
		wire = append(wire, map[string]any{"role": message.Role, "content": message.Text})
	}
	body, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "messages": wire})
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

type answer struct {
	text, reasoning, finish string
	calls                   []string
	done                    bool
	err                     error
}

func readStream(t *testing.T, body io.Reader) answer {
	t.Helper()
	var got answer
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			got.done = true
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
					ToolCalls []struct {
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		for _, choice := range chunk.Choices {
			got.text += choice.Delta.Content
			got.reasoning += choice.Delta.Reasoning
			got.finish += choice.FinishReason
			for _, call := range choice.Delta.ToolCalls {
				got.calls = append(got.calls, call.Function.Name+call.Function.Arguments)
			}
		}
	}
	got.err = lines.Err()
	return got
}

func TestScriptedAnswers(t *testing.T) {
	user := func(text string) []Message { return []Message{{"system", "s"}, {"user", text}} }
	cases := []struct {
		name     string
		messages []Message
		text     string
		finish   string
		calls    []string
	}{
		{"echo", user("hello there"), "You said: hello there", "stop", nil},
		{"tool", user("[[tool]]"), "Let me look. ", "tool_calls", []string{`terminal{"command":"echo hi"}`}},
		{"command", user("please [[tool sleep 60]]"), "Let me look. ", "tool_calls", []string{`terminal{"command":"sleep 60"}`}},
		{"failing tool", user("[[fail]]"), "", "tool_calls", []string{`terminal{"command":"exit 3"}`}},
		{"parallel", user("[[parallel a.txt b.txt]]"), "", "tool_calls", []string{`read_file{"path":"a.txt"}`, `read_file{"path":"b.txt"}`}},
		{"unknown tool", user("[[unknown]]"), "", "tool_calls", []string{`no_such_tool{}`}},
		{"after a tool", append(user("[[tool]]"), Message{"tool", "hi"}), "The tool said: hi", "stop", nil},
		{"words", user("[[words 3]]"), "word1 word2 word3 ", "stop", nil},
		{"memory", []Message{{"user", "I am Ann"}, {"assistant", "x"}, {"user", "[[remember]]"}}, "I remember: I am Ann", "stop", nil},
		{"no memory", user("[[remember]]"), "I remember nothing.", "stop", nil},
		{"joined messages", user("[[error 401]]\n\nhello"), "You said: [[error 401]]\n\nhello", "stop", nil},
		{"keyword in the last line", user("[[error 401]]\n\n[[words 1]]"), "word1 ", "stop", nil},
		{"unknown keyword", user("[[what]]"), "Unknown keyword: what", "stop", nil},
	}
	base := start(t, &Server{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := readStream(t, post(t, base, true, c.messages...).Body)
			if got.text != c.text || got.finish != c.finish || fmt.Sprint(got.calls) != fmt.Sprint(c.calls) || !got.done {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestReasoningComesBeforeTheText(t *testing.T) {
	got := readStream(t, post(t, start(t, &Server{}), true, Message{"user", "[[reasoning]]"}).Body)
	if got.reasoning == "" || got.text != "Then I answer." {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsHaveTheirStatus(t *testing.T) {
	base := start(t, &Server{})
	for text, want := range map[string]int{"[[error 401]]": 401, "[[error 429]]": 429, "[[error]]": 500, "[[error 200]]": 500} {
		response := post(t, base, true, Message{"user", text})
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != want || !strings.Contains(string(body), `"error":{"message"`) {
			t.Errorf("%s: status %d, %s", text, response.StatusCode, body)
		}
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	base := start(t, &Server{})
	for _, body := range []string{"", "{", `{"messages":[]}`} {
		response, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d", body, response.StatusCode)
		}
	}
}

func TestADroppedAnswerHasNoEnd(t *testing.T) {
	got := readStream(t, post(t, start(t, &Server{}), true, Message{"user", "[[drop]]"}).Body)
	if !errors.Is(got.err, io.ErrUnexpectedEOF) || got.done || got.text != "This answer is cut " {
		t.Errorf("got %+v", got)
	}
}

func TestASlowAnswerIsPacedAndEndsWithItsCaller(t *testing.T) {
	base := start(t, &Server{Pace: time.Millisecond})
	if got := readStream(t, post(t, base, true, Message{"user", "[[slow 5]]"}).Body); got.text != "word1 word2 word3 word4 word5 " {
		t.Errorf("got %+v", got)
	}
	// With an hour between the chunks only the caller's leave can end the request; the server's Close
	// waits for it.
	endless := start(t, &Server{Pace: time.Hour})
	response := post(t, endless, true, Message{"user", "[[slow]]"})
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestRequestsAreRecordedAndAuxiliaryCallsDoNotAct(t *testing.T) {
	model := &Server{}
	base := start(t, model)
	response := post(t, base, false, Message{"user", "make a title for [[error 401]]"})
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "Scripted title") {
		t.Fatalf("status %d, %s", response.StatusCode, body)
	}
	listed, err := http.Get(base + "/__requests")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listed.Body.Close() }()
	var requests []Request
	if err := json.NewDecoder(listed.Body).Decode(&requests); err != nil {
		t.Fatal(err)
	}
	if len(requests) != 1 || requests[0].Stream || requests[0].Messages[0].Text != "make a title for [[error 401]]" {
		t.Errorf("got %+v", requests)
	}
	for range maxRecorded + 5 {
		model.record(Request{})
	}
	if n := len(model.Requests()); n != maxRecorded {
		t.Errorf("%d requests are kept", n)
	}
}

func TestContentPartsAreFlattened(t *testing.T) {
	for content, want := range map[string]string{`"a"`: "a", `[{"type":"text","text":"a"},{"type":"image_url"},{"text":"b"}]`: "a\nb", `null`: "", `7`: ""} {
		if got := flatten(json.RawMessage(content)); got != want {
			t.Errorf("%s: got %q", content, got)
		}
	}
}

func TestProbesAre404(t *testing.T) {
	base := start(t, &Server{})
	for _, path := range []string{"/v1/models", "/api/tags", "/props", "/version"} {
		response, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", path, response.StatusCode)
		}
	}
}

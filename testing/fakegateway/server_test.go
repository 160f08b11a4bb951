package fakegateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded runs a script without a network and returns what it wrote.
func recorded(script Script, id string) string {
	s := New(Options{})
	w := httptest.NewRecorder()
	t := &Turn{Writer: w, Request: httptest.NewRequest(http.MethodPost, "/v1/responses", nil), server: s, id: id,
		message: -1, model: modelName, controller: http.NewResponseController(w)}
	script(t)
	return w.Body.String()
}

func mustFixture(t *testing.T, name string) string {
	t.Helper()
	body, err := Fixture(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// The fake writes byte for byte what the recorded gateway wrote.
func TestWireShapeOfText(t *testing.T) {
	got := recorded(func(turn *Turn) {
		turn.Created()
		turn.Delta("晚上好 🌙！今天")
		turn.Delta("的天气是")
		turn.KeepAlive()
		turn.Delta("多云，22°C — 带把伞 ☂️。")
		turn.Delta("\n\n祝你愉快 👩‍💻")
		turn.Complete(Usage{812, 41})
	}, "resp_4b1d0c8a7e2f46359d10aa57c3e1")
	if want := mustFixture(t, "responses_text"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The same for tools and a failure; ids and times are those of the recording.
func TestWireShapeOfToolsAndFailure(t *testing.T) {
	const arguments = `{"query": "\u4e1c\u4eac \u5929\u6c14"}`
	normal := func(s string) string {
		s = regexp.MustCompile(`"(fc|fco)_[0-9a-f]{24}"`).ReplaceAllString(s, `"${1}_x"`)
		return regexp.MustCompile(`"created_at": \d+`).ReplaceAllString(s, `"created_at": 0`)
	}
	got := recorded(func(turn *Turn) {
		turn.Created()
		turn.Delta("正在查询，请稍")
		turn.Tool("call_Dd05", "web_search", arguments, `{"error": "search backend unavailable"}`)
		turn.Fail("Error code: 503 - upstream overloaded")
	}, "resp_c7e2a9d84f1b4b06b3c8910f6ad5")
	if want := mustFixture(t, "responses_failed"); normal(got) != normal(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func post(t *testing.T, s *Server, path, key, body string) (int, string) {
	t.Helper()
	return call(t, http.MethodPost, s.URL+path, key, body)
}

func call(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestAuthAndErrors(t *testing.T) {
	s := Start(t, Options{Key: "k"})
	for _, test := range []struct {
		class, key, body string
		status           int
		want             string
	}{
		{"D", "", `{"input":"x"}`, 401, "gateway_auth_failed"},
		{"B", "", `{"input":"x"}`, 401, "invalid_api_key"},
		{"D", "k", `{`, 400, "Invalid JSON"},
		{"D", "k", `{}`, 400, "'input'"},
		{"D", "k", `{"input":"[[fail 429]]"}`, 429, "rate_limit_exceeded"},
		{"D", "k", `{"input":"[[what]]"}`, 400, "unknown keyword"},
		{"D", "k", `{"input":"[[fixture what]]"}`, 400, "responses_text"},
		{"D", "k", `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`, 200, `"delta": "echo: "`},
		{"A0", "k", `{"input":"` + strings.Repeat("x", 1_000_001) + `"}`, 413, "body_too_large"},
	} {
		s.SetClass(test.class)
		status, text := post(t, s, "/v1/responses", test.key, test.body)
		if status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("class %s, body %.40s: %d %.200s", test.class, test.body, status, text)
		}
	}
	if status, text := call(t, http.MethodGet, s.URL+"/nowhere", "k", ""); status != 404 || !strings.HasPrefix(text, "404: Not Found") {
		t.Errorf("unknown path: %d %q", status, text)
	}
}

func TestFailOnlyTheFirstAttempts(t *testing.T) {
	s := Start(t, Options{})
	var got []int
	for range 4 {
		status, _ := post(t, s, "/v1/responses", "", `{"input":"[[fail 429 2]] go"}`)
		got = append(got, status)
	}
	if want := []int{429, 429, 200, 200}; !equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func equal(a, b []int) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// The control routes: requests, state, release, key, class, drain.
func TestControl(t *testing.T) {
	s := Start(t, Options{Key: "k"})
	done := make(chan string, 1)
	go func() {
		_, text := post(t, s, "/v1/responses", "k", `{"input":"[[hold]] please"}`)
		done <- text
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.WaitFor(ctx, func(state State) bool { return state.Held == 1 }); err != nil {
		t.Fatal(err)
	}
	if _, text := call(t, http.MethodGet, s.URL+"/__control/held?value=1", "", ""); !strings.Contains(text, `"held":1`) {
		t.Errorf("held %s", text)
	}
	if _, text := call(t, http.MethodGet, s.URL+"/__control/state", "", ""); !strings.Contains(text, `"held":1`) {
		t.Errorf("state %s", text)
	}
	if status, _ := call(t, http.MethodPost, s.URL+"/__control/release", "", ""); status != http.StatusNoContent {
		t.Errorf("release %d", status)
	}
	if text := <-done; !strings.Contains(text, "released") || !strings.Contains(text, "response.completed") {
		t.Errorf("released turn %s", text)
	}
	var requests []Request
	_, text := call(t, http.MethodGet, s.URL+"/__control/requests", "", "")
	if err := json.Unmarshal([]byte(text), &requests); err != nil || len(requests) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	if r := requests[0]; r.Body != `{"input":"[[hold]] please"}` || r.Header.Get("Authorization") != "Bearer k" || !r.Done || r.ClientGone {
		t.Errorf("recorded %+v", r)
	}
	for path, want := range map[string]int{
		"key?value=": 204, "class?value=C": 204, "class?value=Z": 400, "drain?value=true": 204,
	} {
		if status, _ := call(t, http.MethodPost, s.URL+"/__control/"+path, "", ""); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, text := post(t, s, "/v1/responses", "", `{"input":"x"}`); status != 503 || !strings.Contains(text, "gateway_draining") {
		t.Errorf("draining: %d %s", status, text)
	}
	if _, text := call(t, http.MethodGet, s.URL+"/health", "", ""); !strings.Contains(text, `"version": "0.18.0"`) {
		t.Errorf("class C health %s", text)
	}
	call(t, http.MethodDelete, s.URL+"/__control/requests", "", "")
	if len(s.Requests()) != 0 {
		t.Error("requests not cleared")
	}
}

// A stored response of a turn whose client left becomes incomplete, with usage.
func TestStoredAfterDisconnect(t *testing.T) {
	left := make(chan struct{})
	ids := make(chan string, 1)
	s := Start(t, Options{Script: func(turn *Turn) {
		turn.Created()
		turn.Delta("a")
		ids <- turn.ID()
		<-turn.Request.Context().Done()
		turn.Delta("b")
		turn.Complete(someUsage)
		close(left)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/responses", strings.NewReader(`{"input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	id := <-ids
	if _, text := call(t, http.MethodGet, s.URL+"/v1/responses/"+id, "", ""); !strings.Contains(text, `"in_progress"`) {
		t.Errorf("while it runs: %s", text)
	}
	cancel()
	resp.Body.Close()
	<-left
	if _, text := call(t, http.MethodGet, s.URL+"/v1/responses/"+id, "", ""); !strings.Contains(text, `"incomplete"`) || !strings.Contains(text, `"text": "ab"`) {
		t.Errorf("after it: %s", text)
	}
	if status, _ := call(t, http.MethodDelete, s.URL+"/v1/responses/"+id, "", ""); status != 200 {
		t.Errorf("delete %d", status)
	}
	if status, _ := call(t, http.MethodGet, s.URL+"/v1/responses/"+id, "", ""); status != 404 {
		t.Errorf("deleted: %d", status)
	}
}

func TestLoad(t *testing.T) {
	const n = 50
	for _, rate := range []int{0, 5000} {
		body := recorded(func(turn *Turn) { Load(turn, n, rate) }, newID("resp_", 28))
		if got := strings.Count(body, "event: response.output_text.delta\n"); got != n+1 {
			t.Errorf("rate %d: %d deltas", rate, got)
		}
		stamp := regexp.MustCompile(`"delta": "(\d{19}) load`).FindStringSubmatch(body)
		if stamp == nil || !strings.Contains(body, "response.completed") {
			t.Errorf("rate %d: %s", rate, body[:400])
		}
		for _, line := range strings.Split(body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok && !json.Valid([]byte(data)) {
				t.Fatalf("not JSON: %s", data)
			}
		}
	}
}

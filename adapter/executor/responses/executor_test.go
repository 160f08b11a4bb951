package responses_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/executor/responses"
	"github.com/hermes-edge/hermes-edge/adapter/gateway"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a sink that writes down what it is told.
type recorder struct {
	log      []string
	text     strings.Builder
	onText   func()
	sendFail error
	refused  chan struct{}
	noticed  chan struct{}
}

func (r *recorder) add(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

func (r *recorder) Sending(context.Context) error {
	r.add("sending")
	return r.sendFail
}
func (r *recorder) Refused(context.Context) error {
	r.add("refused")
	if r.refused != nil {
		r.refused <- struct{}{}
	}
	return nil
}
func (r *recorder) Started(id, status string) { r.add("started %s", status) }
func (r *recorder) Notice(kind, text string) {
	r.add("notice %s", kind)
	if r.noticed != nil {
		r.noticed <- struct{}{}
	}
}
func (r *recorder) Text(delta string) {
	r.text.WriteString(delta)
	if r.onText != nil {
		r.onText()
	}
}
func (r *recorder) Reasoning(string) {}
func (r *recorder) Flush()           {}
func (r *recorder) ToolStarted(t engine.ToolStart) {
	r.add("tool %s", t.Name)
}
func (r *recorder) ToolCompleted(t engine.ToolEnd)  { r.add("result error=%v", t.Error) }
func (r *recorder) CallRecorded(t engine.ToolStart) { r.add("recorded call %s", t.Name) }
func (r *recorder) ResultRecorded(t engine.ToolEnd) { r.add("recorded result %s", t.Output) }
func (r *recorder) has(entry string) bool           { return strings.Contains(strings.Join(r.log, ";"), entry) }

func newExecutor(t *testing.T, gw *fakegateway.Server, change func(*gateway.Config)) *responses.Executor {
	t.Helper()
	cfg := gateway.Config{BaseURL: gw.URL, Logger: zaptest.NewLogger(t)}
	if change != nil {
		change(&cfg)
	}
	client, err := gateway.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return responses.New(responses.Config{
		Client: client, Model: func(string) string { return "" }, Logger: zaptest.NewLogger(t),
	})
}

func turn(input string) engine.Turn {
	return engine.Turn{SessionID: "s1", RunKey: "k", Profile: "default", Input: chatrun.Input{Text: input}, Instructions: "be kind",
		Model: "asked-for", History: []chatrun.HistoryMessage{{Role: "user", Content: "before"}, {Role: "assistant", Content: "yes"}}}
}

// CR-41, GW-39, GW-41: the request, to the field.
func TestRequestFields(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	sink := &recorder{}
	out := newExecutor(t, gw, nil).Run(t.Context(), turn("hello"), sink)
	if out.Failed || sink.text.String() != "echo: hello" || !out.Stopped {
		t.Fatalf("%+v, text %q", out, sink.text.String())
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(gw.Turns()[0].Body), &body); err != nil {
		t.Fatal(err)
	}
	want := `{"conversation_history":[{"content":"before","role":"user"},{"content":"yes","role":"assistant"}],"input":"hello","instructions":"be kind","store":false,"stream":true}`
	if got, _ := json.Marshal(body); string(got) != want {
		t.Errorf("body %s\nwant %s", got, want)
	}
	if gw.Turns()[0].Header.Get("Origin") != "" {
		t.Error("GW-1: Origin sent")
	}
}

// AUT-09, D-23, section 9.5: blocks become text parts; no file is opened.
func TestBlocksNameFilesOnly(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	in, err := chatrun.ParseInput(json.RawMessage(`[{"type":"text","text":"look"},{"type":"image","name":"p.png","path":"/etc/passwd","media_type":"image/png"},{"type":"file","name":"a.txt","path":"/etc/shadow"}]`))
	if err != nil {
		t.Fatal(err)
	}
	tn := turn("")
	tn.Input = in
	newExecutor(t, gw, nil).Run(t.Context(), tn, &recorder{})
	body := gw.Turns()[0].Body
	for _, want := range []string{`"text":"look"`, `"text":"[Image: /etc/passwd]"`, `"text":"[File: a.txt]"`} {
		if !strings.Contains(body, want) {
			t.Errorf("body misses %s: %s", want, body)
		}
	}
	if strings.Contains(body, "base64") || strings.Contains(body, "root:") {
		t.Error("a file was read")
	}
}

// The upstream's ways to end a turn (GW-5, GW-16, GW-28, T3, RUN-01..04, SSE-08..13).
func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		input   string
		failed  bool
		text    string // streamed
		error   string // part of
		stopped bool
		discard bool
	}{
		{input: "[[fixture responses_text]]", text: "晚上好", stopped: true},
		{input: "[[tool]]", text: "One.\n\nTwo.", stopped: true},
		{input: "[[crlf]]", stopped: true},
		{input: "[[twice]]", stopped: true},
		{input: "[[final]]", stopped: true},
		{input: "[[failed]]", failed: true, text: "Half", error: "overloaded", stopped: true},
		{input: "[[error]]", failed: true, text: "Half", error: "overloaded", stopped: true},
		{input: "[[masked]]", failed: true, error: "401", stopped: true, discard: true},
		{input: "[[fixture responses_masked_retry]]", failed: true, stopped: true, discard: true},
		{input: "[[eof]]", failed: true, text: "One two", error: "Response stream ended without a terminal event"},
		{input: "[[cut]]", failed: true, text: "One two", error: "Response stream ended without a terminal event"},
		{input: "[[html]]", failed: true, error: "web page", stopped: true},
		{input: "[[redirect]]", failed: true, error: "redirects", stopped: true},
		{input: "[[fail 401]]", failed: true, error: "key", stopped: true},
		{input: "[[fail 500]]", failed: true, error: "Upstream 500", stopped: true},
		{input: "[[fail 400]]", failed: true, error: "Upstream 400", stopped: true},
	} {
		t.Run(tc.input, func(t *testing.T) {
			gw := fakegateway.Start(t, fakegateway.Options{})
			sink := &recorder{}
			out := newExecutor(t, gw, nil).Run(t.Context(), turn(tc.input), sink)
			if out.Failed != tc.failed || out.Stopped != tc.stopped || out.Discard != tc.discard {
				t.Errorf("outcome %+v", out)
			}
			if !strings.Contains(out.Error, tc.error) {
				t.Errorf("error %q, want %q in it", out.Error, tc.error)
			}
			if tc.text != "" && !strings.HasPrefix(sink.text.String(), tc.text) {
				t.Errorf("text %q", sink.text.String())
			}
			if len(gw.Turns()) != 1 {
				t.Errorf("GW-44: %d requests", len(gw.Turns()))
			}
		})
	}
}

// GW-6, GW-7, RUN-09: a full gateway is waited for, visibly, and the run may be
// begun anew by another node meanwhile.
func TestWaitsForAFullGateway(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	sink := &recorder{}
	out := newExecutor(t, gw, nil).Run(t.Context(), turn("[[fail 429 1]]"), sink)
	if out.Failed || !sink.has("sending;refused;notice waiting;sending;started") {
		t.Errorf("%+v: %v", out, sink.log)
	}
}

func TestStopWhileWaiting(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	sink := &recorder{refused: make(chan struct{})}
	go func() { <-sink.refused; cancel() }()
	out := newExecutor(t, gw, nil).Run(ctx, turn("[[fail 429]]"), sink)
	if !out.Failed || !out.Stopped {
		t.Errorf("%+v", out)
	}
}

// A stop closes the stream; the gateway does not confirm it.
func TestStopClosesTheStream(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	sink := &recorder{onText: cancel}
	out := newExecutor(t, gw, nil).Run(ctx, turn("[[hold]]"), sink)
	if !out.Failed || out.Stopped {
		t.Errorf("%+v", out)
	}
	gone, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := gw.WaitFor(gone, func(fakegateway.State) bool { return gw.Turns()[0].ClientGone || gw.Turns()[0].Done }); err != nil {
		t.Error("the gateway still has its client")
	}
}

// Nothing is sent unless the write-ahead succeeded (H8).
func TestNothingIsSentWithoutTheWriteAhead(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	out := newExecutor(t, gw, nil).Run(t.Context(), turn("hello"), &recorder{sendFail: errors.New("no")})
	if !out.Failed || !out.Stopped || len(gw.Turns()) != 0 {
		t.Errorf("%+v after %d requests", out, len(gw.Turns()))
	}
}

func TestUnreachableGatewayFailsAtOnce(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{})
	x := newExecutor(t, gw, func(c *gateway.Config) { c.BaseURL = "http://127.0.0.1:1" })
	out := x.Run(t.Context(), turn("hello"), &recorder{})
	if !out.Failed || !out.Stopped || !strings.Contains(out.Error, "gateway") {
		t.Errorf("%+v", out)
	}
}

// T31, GW-51: with store on, a lost stream is completed from the stored response,
// and nothing is delivered twice; the response is deleted afterwards.
func TestLostStreamIsRecovered(t *testing.T) {
	gw := fakegateway.Start(t, fakegateway.Options{Script: func(turn *fakegateway.Turn) {
		turn.Created()
		turn.Delta("One ")
		turn.Delta("two ")
		http.NewResponseController(turn.Writer).Flush()
		conn, _, err := http.NewResponseController(turn.Writer).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
		turn.Delta("three")
		turn.Complete(fakegateway.Usage{Input: 3, Output: 4})
	}})
	sink := &recorder{}
	out := newExecutor(t, gw, func(c *gateway.Config) { c.Store = true }).Run(t.Context(), turn("x"), sink)
	if out.Failed || sink.text.String() != "One two three" {
		t.Errorf("%+v, text %q", out, sink.text.String())
	}
	deleted := false
	for _, r := range gw.Requests() {
		deleted = deleted || r.Method == "DELETE"
	}
	if !deleted {
		t.Error("R6: the stored response was not deleted")
	}
}

// Contract 5.7: a turn that another node goes on with leaves its stored response.
func TestDetachedTurnKeepsItsResponse(t *testing.T) {
	for name, cause := range map[string]error{"detached": engine.ErrDetached, "stopped": errors.New("stopped")} {
		t.Run(name, func(t *testing.T) {
			gw := fakegateway.Start(t, fakegateway.Options{})
			x := newExecutor(t, gw, func(c *gateway.Config) { c.Store = true })
			if ok, unharmed := x.CanReattach("resp_1"); !ok || unharmed {
				t.Errorf("CanReattach: %v, %v", ok, unharmed)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			sink := &recorder{onText: func() { cancel(cause) }}
			if out := x.Run(ctx, turn("[[hold]]"), sink); !out.Failed {
				t.Errorf("%+v", out)
			}
			deleted := slices.ContainsFunc(gw.Requests(), func(r fakegateway.Request) bool { return r.Method == "DELETE" })
			if deleted != (name == "stopped") {
				t.Errorf("response deleted: %v", deleted)
			}
		})
	}
}

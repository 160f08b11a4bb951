package fakegateway

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var keyword = regexp.MustCompile(`\[\[([a-z]+)((?: [^\]\s]+)*)\]\]`)

// Keywords is the default script. The last user message may hold one of
//
//	[[fixture NAME]]     the recorded stream NAME, byte for byte
//	[[slow N D]]         N deltas, D apart ("[[slow 20 100ms]]")
//	[[load N RATE]]      N deltas of about 170 bytes with a time stamp, RATE a second (0: at once)
//	[[hold]]             one delta, then waits for a release, then completes
//	[[tool]]             text, a tool call, text
//	[[tool fail]]        a tool whose result begins with "Error"
//	[[tool hold]]        a tool that runs until a release
//	[[fail STATUS N]]    that HTTP status, only for the first N attempts if N is given
//	[[failed]]           one delta, then response.failed
//	[[error]]            one delta, then an error event and the end
//	[[masked]]           a provider 401 that is reported as completed
//	[[empty]]            completed without any text
//	[[final]]            the answer only in the final envelope
//	[[html]]             200 with a web page
//	[[redirect]]         302
//	[[cut]]              two deltas, then the connection breaks inside a frame
//	[[drop]]             two deltas, then the connection breaks; a third is only stored
//	[[eof]]              two deltas, then an orderly end without terminal event
//	[[reset]]            the connection breaks before any answer
//	[[silent]]           headers and response.created, then nothing until a release
//	[[mute]]             no answer at all until a release
//	[[keepalive N D]]    N keep-alives, D apart, then completes
//	[[crlf]]             CRLF line ends and raw UTF-8
//	[[twice]]            two terminal events and a late delta
//
// and otherwise gets "echo: " and the message back in a few deltas.
func Keywords(t *Turn) {
	found := keyword.FindStringSubmatch(t.Input)
	if found == nil {
		echo(t)
		return
	}
	if run, ok := keywords[found[1]]; ok {
		run(t, arguments(strings.Fields(found[2])))
		return
	}
	t.Error(http.StatusBadRequest, "fake gateway: unknown keyword "+found[1])
}

type arguments []string

func (a arguments) text(i int, otherwise string) string {
	if i < len(a) {
		return a[i]
	}
	return otherwise
}

func (a arguments) number(i, otherwise int) int {
	if n, err := strconv.Atoi(a.text(i, "")); err == nil {
		return n
	}
	return otherwise
}

func (a arguments) duration(i int, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(a.text(i, "")); err == nil {
		return d
	}
	return otherwise
}

var someUsage = Usage{Input: 12, Output: 7}

var keywords = map[string]func(*Turn, arguments){
	"fixture": func(t *Turn, a arguments) {
		body, err := Fixture(a.text(0, ""))
		if err != nil {
			t.Error(http.StatusBadRequest, err.Error())
			return
		}
		t.Raw(string(body))
	},
	"slow":      slow,
	"load":      func(t *Turn, a arguments) { Load(t, a.number(0, 100), a.number(1, 0)) },
	"hold":      hold,
	"tool":      tool,
	"fail":      fail,
	"failed":    func(t *Turn, _ arguments) { begin(t, "Half"); t.Fail("Error code: 503 - upstream overloaded") },
	"error":     streamError,
	"masked":    masked,
	"empty":     func(t *Turn, _ arguments) { begin(t); t.Complete(Usage{}) },
	"final":     final,
	"html":      func(t *Turn, _ arguments) { t.HTML() },
	"redirect":  func(t *Turn, _ arguments) { http.Redirect(t.Writer, t.Request, "/login", http.StatusFound) },
	"cut":       cut,
	"drop":      drop,
	"eof":       func(t *Turn, _ arguments) { begin(t, "One", " two") },
	"reset":     func(*Turn, arguments) { panic(http.ErrAbortHandler) },
	"silent":    func(t *Turn, _ arguments) { wait := t.Held(); t.Created(); wait() },
	"mute":      func(t *Turn, _ arguments) { t.Hold() },
	"keepalive": keepAlive,
	"crlf":      crlf,
	"twice":     twice,
}

func begin(t *Turn, deltas ...string) {
	t.Created()
	for _, text := range deltas {
		t.Delta(text)
	}
}

func echo(t *Turn) {
	runes := []rune(t.Input)
	half := len(runes) / 2
	begin(t, "echo: ")
	for _, part := range []string{string(runes[:half]), string(runes[half:])} {
		if part != "" {
			t.Delta(part)
		}
	}
	t.Complete(someUsage)
}

// slow goes on without its client, but does not take longer than it has to.
func slow(t *Turn, a arguments) {
	begin(t)
	n, pause := a.number(0, 20), a.duration(1, 100*time.Millisecond)
	for i := range n {
		t.Delta("word" + strconv.Itoa(i+1) + " ")
		if i < n-1 && !t.Gone() {
			t.Wait(pause)
		}
	}
	t.Complete(someUsage)
}

func hold(t *Turn, _ arguments) {
	wait := t.Held()
	begin(t, "held ")
	if wait() {
		t.Delta("released")
	}
	t.Complete(someUsage)
}

func tool(t *Turn, a arguments) {
	const name, call = "terminal", `{"command": "echo hi"}`
	result := `{"output": "hi", "exit_code": 0, "error": null}`
	if a.text(0, "") == "fail" {
		result = "Error: no such file"
	}
	wait := func() bool { return true }
	if a.text(0, "") == "hold" {
		wait = t.Held()
	}
	begin(t, "One.")
	id := newID("call_", 8)
	index := t.ToolStart(id, name, call)
	wait()
	t.ToolEnd(index, id, name, call, result)
	t.Delta("\n\nTwo.")
	t.Complete(someUsage)
}

func fail(t *Turn, a arguments) {
	status := a.number(0, http.StatusInternalServerError)
	if attempts := a.number(1, 0); attempts > 0 && t.Attempt() > attempts {
		echo(t)
		return
	}
	t.Error(status, "scripted failure")
}

func streamError(t *Turn, _ arguments) {
	begin(t, "Half")
	t.Event("error", `{"type": "error", "error": {"message": "overloaded"}}`)
}

func masked(t *Turn, _ arguments) {
	begin(t, "HTTP 401: Incorrect API key provided: sk-abcdefghijklmnop")
	t.Complete(Usage{})
}

func final(t *Turn, _ arguments) {
	begin(t)
	envelope := t.envelope("completed", list{object{"type", "message", "role", "assistant",
		"content", list{object{"type", "output_text", "text", "Hello"}}}}, someUsage.object())
	t.end("response.completed", envelope)
}

func cut(t *Turn, _ arguments) {
	begin(t, "One", " two")
	t.Raw("event: response.output_text.delta\ndata: {\"type\": \"response.output_text.delta\", \"delta\": \" thr")
	t.Cut()
}

func drop(t *Turn, _ arguments) {
	begin(t, "One", " two")
	t.Break()
	t.Delta(" three")
	t.Complete(someUsage)
}

func keepAlive(t *Turn, a arguments) {
	begin(t)
	for range a.number(0, 20) {
		t.KeepAlive()
		if !t.Wait(a.duration(1, time.Second)) {
			break
		}
	}
	t.Delta("done")
	t.Complete(someUsage)
}

func crlf(t *Turn, _ arguments) {
	t.Raw("event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"" + t.id + "\"}}\r\n\r\n" +
		"event: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"你好🌍é\"}\r\n\r\n" +
		"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"" + t.id + "\",\"output\":[],\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\r\n\r\n")
}

func twice(t *Turn, _ arguments) {
	begin(t, "first")
	t.Complete(someUsage)
	t.Fail("late failure")
	t.Delta(" late")
	t.Complete(someUsage)
}

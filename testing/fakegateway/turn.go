package fakegateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	modelName = "hermes-agent"
	createdAt = 1781690400
)

// Turn is one POST /v1/responses under way. Its methods write the events of a
// real gateway in their wire shape; the first one that streams sends the
// headers. After the client has gone writes go nowhere and the turn goes on,
// as it does on real gateways since 0.13. A Turn serves one goroutine.
type Turn struct {
	Body    map[string]any // decoded request body
	Input   string         // text of the last user message
	Request *http.Request
	Writer  http.ResponseWriter

	server     *Server
	id         string
	model      string
	store      bool
	started    bool
	sequence   int
	indexes    int
	message    int // output index of the message item, -1 before the first text
	callItems  map[int]string
	text       strings.Builder
	output     list
	buffer     []byte
	controller *http.ResponseController
	unflushed  bool
	broken     bool // writes reach nobody
}

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	draining, script := s.draining, s.options.Script
	s.mu.Unlock()
	if draining {
		w.Header().Set("Retry-After", "1")
		s.reply(w, http.StatusServiceUnavailable, errorBody("Gateway is draining", "server_error", "gateway_draining"))
		return
	}
	t := &Turn{Request: r, Writer: w, server: s, message: -1, model: modelName, controller: http.NewResponseController(w)}
	if err := json.NewDecoder(r.Body).Decode(&t.Body); err != nil {
		s.reply(w, http.StatusBadRequest, object{"error", object{"message", "Invalid JSON in request body", "type", "invalid_request_error"}})
		return
	}
	if t.Body["input"] == nil {
		s.reply(w, http.StatusBadRequest, errorBody("Missing required parameter: 'input'.", "invalid_request_error", nil))
		return
	}
	t.prepare()
	s.turnsRunning(1)
	defer s.turnsRunning(-1)
	if script == nil {
		script = Keywords
	}
	script(t)
}

func (t *Turn) prepare() {
	t.Input = lastText(t.Body["input"])
	if model, ok := t.Body["model"].(string); ok && model != "" {
		t.model = model
	}
	t.store = t.Body["store"] != false
	t.id = newID("resp_", 28)
}

// lastText is the text of the last item of an input.
func lastText(input any) string {
	switch v := input.(type) {
	case string:
		return v
	case []any:
		if len(v) == 0 {
			return ""
		}
		return contentText(v[len(v)-1])
	}
	return ""
}

func contentText(item any) string {
	object, ok := item.(map[string]any)
	if !ok {
		text, _ := item.(string)
		return text
	}
	if text, ok := object["text"].(string); ok {
		return text
	}
	parts, ok := object["content"].([]any)
	if !ok {
		text, _ := object["content"].(string)
		return text
	}
	var texts []string
	for _, part := range parts {
		if text := contentText(part); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// ID returns the response id.
func (t *Turn) ID() string { return t.id }

// Attempt counts the turns with this input so far, this one included.
func (t *Turn) Attempt() int {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.server.attempts[t.Input]++
	return t.server.attempts[t.Input]
}

// Headers sends the status and headers of a stream without any event.
func (t *Turn) Headers() {
	if t.started {
		return
	}
	t.started = true
	h := t.Writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Hermes-Session-Id", "api_fake")
	t.Writer.WriteHeader(http.StatusOK)
	t.unflushed = true
	t.flush()
}

// Raw writes bytes as they are.
func (t *Turn) Raw(text string) {
	t.Headers()
	t.write([]byte(text))
	t.flush()
}

func (t *Turn) write(b []byte) {
	if t.broken {
		return
	}
	// An error means that the client has gone; the turn goes on without it.
	_, err := t.Writer.Write(b)
	t.broken = err != nil
	t.unflushed = true
}

func (t *Turn) flush() {
	if t.unflushed && !t.broken {
		t.broken = t.controller.Flush() != nil
	}
	t.unflushed = false
}

// emit writes one event; the sequence number is its last field.
func (t *Turn) emit(kind string, fields ...any) {
	t.Headers()
	data := append(object{"type", kind}, fields...)
	data = append(data, "sequence_number", t.sequence)
	t.sequence++
	t.buffer = append(t.buffer[:0], "event: "...)
	t.buffer = append(t.buffer, kind...)
	t.buffer = append(t.buffer, "\ndata: "...)
	t.buffer = appendJSON(t.buffer, data)
	t.buffer = append(t.buffer, "\n\n"...)
	t.write(t.buffer)
	t.flush()
}

// Event writes an event of any kind with a JSON data text.
func (t *Turn) Event(kind, data string) {
	t.Raw(fmt.Sprintf("event: %s\ndata: %s\n\n", kind, data))
}

// KeepAlive writes the comment of an idle stream.
func (t *Turn) KeepAlive() { t.Raw(": keepalive\n\n") }

// Created opens the response.
func (t *Turn) Created() {
	if t.store {
		t.server.stored.put(t.id, t.envelope("in_progress", list{}, nil))
	}
	t.emit("response.created", "response", t.envelope("in_progress", list{}, nil))
}

func (t *Turn) envelope(status string, output list, usage object) object {
	e := object{"id", t.id, "object", "response", "status", status, "created_at", createdAt, "model", t.model, "output", output}
	if usage != nil {
		e = append(e, "usage", usage)
	}
	return e
}

func (t *Turn) messageID() string { return "msg_" + t.id[5:29] }

func (t *Turn) nextIndex() int {
	t.indexes++
	return t.indexes - 1
}

// Delta streams a piece of text.
func (t *Turn) Delta(text string) {
	if t.message < 0 {
		t.message = t.nextIndex()
		t.emit("response.output_item.added", "output_index", t.message, "item", object{
			"id", t.messageID(), "type", "message", "status", "in_progress", "role", "assistant", "content", list{}})
	}
	t.text.WriteString(text)
	t.emit("response.output_text.delta", "item_id", t.messageID(), "output_index", t.message,
		"content_index", 0, "delta", text, "logprobs", list{})
}

// ToolStart opens a call; arguments is JSON text. It returns the call's output index.
func (t *Turn) ToolStart(callID, name, arguments string) int {
	index := t.nextIndex()
	if t.callItems == nil {
		t.callItems = make(map[int]string)
	}
	t.callItems[index] = newID("fc_", 24)
	t.emit("response.output_item.added", "output_index", index, "item", t.callItem(index, callID, name, arguments, "in_progress"))
	t.output = append(t.output, object{"type", "function_call", "name", name, "arguments", arguments, "call_id", callID})
	return index
}

func (t *Turn) callItem(index int, callID, name, arguments, status string) object {
	return object{"id", t.callItems[index], "type", "function_call", "status", status, "name", name, "call_id", callID, "arguments", arguments}
}

// ToolEnd closes the call that has this index and delivers its result.
func (t *Turn) ToolEnd(index int, callID, name, arguments, result string) {
	t.emit("response.output_item.done", "output_index", index, "item", t.callItem(index, callID, name, arguments, "completed"))
	parts := list{object{"type", "input_text", "text", result}}
	item := object{"id", newID("fco_", 24), "type", "function_call_output", "call_id", callID, "output", parts, "status", "completed"}
	own := t.nextIndex()
	t.emit("response.output_item.added", "output_index", own, "item", item)
	t.emit("response.output_item.done", "output_index", own, "item", item)
	t.output = append(t.output, object{"type", "function_call_output", "call_id", callID,
		"output", list{object{"type", "input_text", "text", trimmed(result)}}})
}

// trimmed is what terminal payloads keep of a result.
func trimmed(result string) string {
	const limit, kept = 1000, 500
	runes := []rune(result)
	if len(runes) <= limit {
		return result
	}
	return fmt.Sprintf("%s...[%d more chars]", string(runes[:kept]), len(runes)-kept)
}

// Tool runs a whole call.
func (t *Turn) Tool(callID, name, arguments, result string) {
	t.ToolEnd(t.ToolStart(callID, name, arguments), callID, name, arguments, result)
}

func (t *Turn) closeMessage() {
	if t.message < 0 {
		return
	}
	t.emit("response.output_text.done", "item_id", t.messageID(), "output_index", t.message,
		"content_index", 0, "text", t.text.String(), "logprobs", list{})
	t.emit("response.output_item.done", "output_index", t.message, "item", object{
		"id", t.messageID(), "type", "message", "status", "completed", "role", "assistant", "content", t.content()})
}

func (t *Turn) content() list {
	return list{object{"type", "output_text", "text", t.text.String()}}
}

func (t *Turn) allOutput() list {
	out := append(list{}, t.output...)
	if t.message >= 0 {
		out = append(out, object{"type", "message", "role", "assistant", "content", t.content()})
	}
	return out
}

// Usage is the token count of a terminal event.
type Usage struct{ Input, Output int }

func (u Usage) object() object {
	return object{"input_tokens", u.Input, "output_tokens", u.Output, "total_tokens", u.Input + u.Output}
}

// Complete ends the turn well.
func (t *Turn) Complete(usage Usage) {
	t.closeMessage()
	t.end("response.completed", t.envelope("completed", t.allOutput(), usage.object()))
}

// Fail ends the turn by response.failed.
func (t *Turn) Fail(message string) {
	t.closeMessage()
	e := t.envelope("failed", t.allOutput(), nil)
	t.end("response.failed", append(e, "error", object{"message", message, "type", "server_error"}, "usage", Usage{}.object()))
}

func (t *Turn) end(kind string, envelope object) {
	if t.store {
		stored := envelope
		if t.Gone() {
			stored = t.envelope("incomplete", t.allOutput(), Usage{12, 7}.object())
		}
		t.server.stored.put(t.id, stored)
	}
	t.emit(kind, "response", envelope)
}

// Cut breaks the connection without any further byte; it does not return. A
// stored response stays in progress for one more look, then is incomplete.
func (t *Turn) Cut() {
	if t.store && t.started {
		t.server.stored.put(t.id, t.envelope("incomplete", t.allOutput(), Usage{12, 7}.object()))
		t.server.stored.delay(t.id, t.envelope("in_progress", list{}, nil))
	}
	t.flush()
	panic(http.ErrAbortHandler)
}

// Break cuts the connection while the turn goes on, as it does when the network
// fails: what follows is only stored.
func (t *Turn) Break() {
	t.flush()
	t.broken = true
	// A writer that cannot be hijacked has no connection to cut.
	if conn, _, err := t.controller.Hijack(); err == nil {
		conn.Close()
	}
}

// Gone reports whether the client no longer gets what the turn writes.
func (t *Turn) Gone() bool { return t.broken || t.Request.Context().Err() != nil }

// Hold waits until the server's Release; false if the client went first.
func (t *Turn) Hold() bool { return t.Held()() }

// Held makes the turn one that the next Release lets go, from now on: whoever has
// seen anything the turn sends after it may release. The result waits like Hold.
func (t *Turn) Held() (wait func() bool) {
	release, leave := t.server.hold()
	return func() bool {
		defer leave()
		select {
		case <-release:
			return true
		case <-t.Request.Context().Done():
			return false
		}
	}
}

// Wait waits for d; false if the client went first.
func (t *Turn) Wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.Request.Context().Done():
		return false
	}
}

// Error answers with an error status in the shape a real gateway uses for it.
func (t *Turn) Error(status int, message string) {
	kind, code := "invalid_request_error", any(nil)
	switch {
	case status == http.StatusUnauthorized:
		code = "invalid_api_key"
	case status == http.StatusTooManyRequests:
		kind, code = "rate_limit_error", "rate_limit_exceeded"
		t.Writer.Header().Set("Retry-After", "1")
	case status == http.StatusServiceUnavailable:
		code = "gateway_draining"
		t.Writer.Header().Set("Retry-After", "1")
	case status >= 500:
		kind = "server_error"
	}
	t.server.reply(t.Writer, status, errorBody(message, kind, code))
}

// HTML answers 200 with a web page.
func (t *Turn) HTML() {
	t.Writer.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(t.Writer, "<!doctype html><html><head><title>Sign in</title></head><body>Please sign in.</body></html>")
}

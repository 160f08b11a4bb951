package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

var usage = map[string]int{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

// stream writes one reply as chunks of the chat completions API. It ends early when the caller goes away.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, reply Reply) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := &chunkWriter{w: w, flush: http.NewResponseController(w).Flush}
	out.delta(map[string]any{"role": "assistant", "content": ""}, nil)
	if reply.Reasoning != "" {
		out.delta(map[string]any{"reasoning_content": reply.Reasoning}, nil)
	}
	for i, chunk := range reply.Chunks {
		if reply.Slow && i > 0 && !s.pause(r) {
			return
		}
		out.delta(map[string]any{"content": chunk}, nil)
	}
	if reply.Drop {
		// The server turns this into a cut connection, which is the point.
		panic(http.ErrAbortHandler)
	}
	for i, call := range reply.Calls {
		function := map[string]any{"name": call.Name, "arguments": call.Arguments}
		entry := map[string]any{"index": i, "id": call.ID, "type": "function", "function": function}
		out.delta(map[string]any{"tool_calls": []any{entry}}, nil)
	}
	finish := "stop"
	if len(reply.Calls) > 0 {
		finish = "tool_calls"
	}
	out.delta(map[string]any{}, &finish)
	out.object(map[string]any{"choices": []any{}, "usage": usage})
	out.line("[DONE]")
}

// pause waits for one pace and reports whether the caller is still there.
func (s *Server) pause(r *http.Request) bool {
	pace := s.Pace
	if pace == 0 {
		pace = time.Second
	}
	timer := time.NewTimer(pace)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

type chunkWriter struct {
	w     http.ResponseWriter
	flush func() error
}

func (c *chunkWriter) delta(delta map[string]any, finish *string) {
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": finish}
	c.object(map[string]any{"choices": []any{choice}})
}

func (c *chunkWriter) object(fields map[string]any) {
	fields["id"] = "c1"
	fields["object"] = "chat.completion.chunk"
	fields["created"] = 1
	fields["model"] = modelName
	// Plain maps, strings and numbers always have a JSON form.
	encoded, _ := json.Marshal(fields)
	c.line(string(encoded))
}

// line ignores write errors: a caller that went away ends the request context as well.
func (c *chunkWriter) line(data string) {
	_, _ = fmt.Fprintf(c.w, "data: %s\n\n", data)
	_ = c.flush()
}

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

const (
	bodyLimit   = 10_000_000 // gateways since 0.13
	bodyLimitA0 = 1_000_000  // 0.12

	sessionKeyHeader = "X-Hermes-Session-Key"
)

// ResponsesRequest is one turn of POST /v1/responses (gateway.md 3.1).
type ResponsesRequest struct {
	// Input is what json.Marshal makes of the user's message: a string, or an
	// array of {role, content} items.
	Input        any
	Instructions string
	// History is the conversation so far, owned by the caller: turns are never
	// chained by previous_response_id (T12).
	History []Message
	Model   string // "" falls back to the configured model, else none is sent
	// SessionKey scopes the gateway's long-term memory; "" sends none.
	SessionKey string
}

// Message is one earlier message. Content is always text (GW-39).
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type responsesBody struct {
	Input        any       `json:"input"`
	Model        string    `json:"model,omitempty"`
	Instructions string    `json:"instructions"`
	History      []Message `json:"conversation_history,omitempty"`
	Stream       bool      `json:"stream"`
	Store        bool      `json:"store"`
}

// Responses runs one turn: it posts once, hands the events to h as they come,
// and returns when the turn is over. The error is nil exactly if the outcome
// is Completed; otherwise it is an *Error. What was streamed before a failure
// stays valid. When ctx ends, the upstream stream is closed at once (which the
// gateway may or may not take as a stop) and the class is ClassCanceled.
//
// The request is never sent twice, except once after a 401 that a newly read
// key may cure. A last frame that the end of the stream cut off counts if its
// JSON is complete, and is dropped otherwise.
func (c *Client) Responses(ctx context.Context, req ResponsesRequest, h EventHandler) (Outcome, error) {
	r, failure := c.responsesRequest(req)
	if failure != nil {
		return Outcome{}, failure
	}
	s, failure := c.openStream(ctx, r)
	if failure != nil {
		return Outcome{}, failure
	}
	defer s.close()
	m := newMapper(h, c.Redact)
	s.reader.wait = h.Pause
	for !m.over {
		frame, failure := s.next()
		if failure != nil {
			return m.outcome, failure
		}
		m.frame(frame)
	}
	s.drain()
	if m.err != nil {
		return m.outcome, m.err
	}
	return m.outcome, nil
}

func (c *Client) responsesRequest(req ResponsesRequest) (request, *Error) {
	body := responsesBody{
		Input: req.Input, Model: req.Model, Instructions: req.Instructions,
		History: req.History, Stream: true, Store: c.cfg.Store,
	}
	if body.Model == "" {
		body.Model = c.cfg.Model
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return request{}, &Error{Class: ClassBadRequest, Text: "The message cannot be encoded for the Hermes gateway", cause: err}
	}
	if limit := c.bodyLimit.Load(); int64(len(encoded)) > limit {
		return request{}, &Error{Class: ClassTooLarge, Text: fmt.Sprintf("The conversation is too large for the Hermes gateway: %d bytes, its limit is %d", len(encoded), limit)}
	}
	r := request{method: http.MethodPost, path: "/v1/responses", body: encoded}
	if req.SessionKey != "" {
		r.header = http.Header{sessionKeyHeader: {req.SessionKey}}
	}
	return r, nil
}

func responsePath(id string) string { return "/v1/responses/" + url.PathEscape(id) }

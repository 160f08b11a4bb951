package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

const rowJSON = `{"id":"s1","profile":"work","source":"api_server","user_id":"alice","model":null,"provider":null,
	"title":"Hi","preview":"hello","started_at":10,"ended_at":null,"end_reason":null,"last_active":20,"message_count":2,
	"tool_call_count":1,"input_tokens":3,"output_tokens":4,"cache_read_tokens":0,"cache_write_tokens":0,"reasoning_tokens":0,
	"billing_provider":null,"estimated_cost_usd":0,"actual_cost_usd":null,"cost_status":null,"workspace":null,
	"is_archived":false,"is_working":true%s}`

func testRow() chatrun.SessionRow {
	user, title := "alice", "Hi"
	return chatrun.SessionRow{
		ID: "s1", Profile: "work", Source: "api_server", UserID: &user, Title: &title, Preview: "hello", StartedAt: 10, LastActive: 20,
		MessageCount: 2, ToolCallCount: 1, InputTokens: 3, OutputTokens: 4, IsWorking: true,
	}
}

func TestList(t *testing.T) {
	f := &fakeSessions{rows: []chatrun.SessionRow{testRow()}, next: "20:s1"}
	h := New(newConfig(f))
	w := do(h, request("GET", "/chat-run/sessions", "alice-token"))
	var answer struct{ Next string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, w, 200, fmt.Sprintf(`{"sessions":[`+rowJSON+`],"next":%q}`, "", answer.Next))
	if f.user != "alice" || f.query != (engine.ListQuery{Limit: 50}) || !f.bound {
		t.Errorf("asked as %q for %+v, deadline %v", f.user, f.query, f.bound)
	}
	if answer.Next == f.next || strings.Contains(answer.Next, "s1") {
		t.Errorf("cursor %q is not opaque", answer.Next)
	}
	do(h, request("GET", "/chat-run/sessions?profile=work&q=+a%20b+&limit=7&archived=true&before="+url.QueryEscape(answer.Next), "alice-token"))
	if want := (engine.ListQuery{Profile: "work", Text: "a b", Limit: 7, Archived: true, Before: "20:s1"}); f.query != want {
		t.Errorf("asked for %+v, want %+v", f.query, want)
	}
	f.rows, f.next = nil, ""
	wantJSON(t, do(h, request("GET", "/chat-run/sessions", "alice-token")), 200, `{"sessions":[],"next":null}`)
}

func TestListLimits(t *testing.T) {
	f := &fakeSessions{}
	h := New(newConfig(f))
	for limit, want := range map[string]int{
		"": 50, "1": 1, "200": 200, "201": 200, "0": 1, "-5": 1, "99999999999999999999": 200, "-99999999999999999999": 1,
	} {
		w := do(h, request("GET", "/chat-run/sessions?limit="+limit, "alice-token"))
		if w.Code != 200 || f.query.Limit != want {
			t.Errorf("limit %q: status %d, asked for %d, want %d", limit, w.Code, f.query.Limit, want)
		}
	}
}

func TestListRefuses(t *testing.T) {
	f := &fakeSessions{}
	h := New(newConfig(f))
	for query, want := range map[string]struct {
		status int
		code   string
	}{
		"limit=x":                         {400, "bad_request"},
		"limit=1.5":                       {400, "bad_request"},
		"archived=perhaps":                {400, "bad_request"},
		"before=x":                        {400, "bad_request"},
		"before=20:s1":                    {400, "bad_request"},
		"before=" + encodeCursor(""):      {400, "bad_request"},
		"before=" + encodeCursor("a\xff"): {400, "bad_request"},
		"before=" + encodeCursor(strings.Repeat("a", 1e3)): {400, "bad_request"},
		"q=" + strings.Repeat("a", 257):                    {400, "bad_request"},
		"profile=foreign":                                  {403, "profile_denied"},
		"profile=MyConfig":                                 {403, "profile_denied"},
		"profile=..%2F..%2Fetc":                            {403, "profile_denied"},
		"profile=%00":                                      {403, "profile_denied"},
		"profile=*":                                        {403, "profile_denied"},
		"profile=" + strings.Repeat("a", 300):              {403, "profile_denied"},
	} {
		wantError(t, do(h, request("GET", "/chat-run/sessions?"+query, "alice-token")), want.status, want.code)
	}
	if len(f.calls) > 0 {
		t.Errorf("the engine was asked: %q", f.calls)
	}
}

func TestSession(t *testing.T) {
	finish := "stop"
	f := &fakeSessions{
		rows:    []chatrun.SessionRow{testRow()},
		msgs:    []chatrun.Message{{ID: 1, SessionID: "s1", Role: "user", Content: "hi", Timestamp: 10, FinishReason: &finish}},
		hasMore: true,
	}
	h := New(newConfig(f))
	message := `{"id":1,"session_id":"s1","role":"user","content":"hi","reasoning":"","timestamp":10,"finish_reason":"stop"}`
	wantJSON(t, do(h, request("GET", "/chat-run/sessions/s1", "alice-token")), 200,
		`{"session":`+fmt.Sprintf(rowJSON, `,"messages":[`+message+`],"has_more":true`)+`}`)
	if want := []string{"session s1", "messages s1"}; !slices.Equal(f.calls, want) || f.before != 0 || f.limit != 150 || !f.bound {
		t.Errorf("calls %q, before %d, limit %d, deadline %v", f.calls, f.before, f.limit, f.bound)
	}
	wantJSON(t, do(h, request("GET", "/chat-run/sessions/s1/messages?before=9&limit=20", "alice-token")), 200,
		`{"messages":[`+message+`],"has_more":true}`)
	if f.before != 9 || f.limit != 20 {
		t.Errorf("before %d, limit %d", f.before, f.limit)
	}
	f.msgs, f.hasMore = nil, false
	wantJSON(t, do(h, request("GET", "/chat-run/sessions/s1/messages?limit=100000", "alice-token")), 200, `{"messages":[],"has_more":false}`)
	if f.limit != 500 || f.before != 0 {
		t.Errorf("before %d, limit %d", f.before, f.limit)
	}
	for _, query := range []string{"before=x", "before=0", "before=-1", "before=99999999999999999999", "limit=x"} {
		wantError(t, do(h, request("GET", "/chat-run/sessions/s1/messages?"+query, "alice-token")), 400, "bad_request")
	}
}

func TestUpdate(t *testing.T) {
	f := &fakeSessions{rows: []chatrun.SessionRow{testRow()}}
	h := New(newConfig(f))
	patch := func(body string) {
		t.Helper()
		wantJSON(t, do(h, request("PATCH", "/chat-run/sessions/s1", "alice-token", "", body)), 200, fmt.Sprintf(rowJSON, ""))
	}
	patch(`{"title":" New\n title ","model":"m","provider":"","archived":true}`)
	p := f.patch
	if p.Title == nil || *p.Title != "New title" || p.Model == nil || *p.Model != "m" ||
		p.Provider == nil || *p.Provider != "" || p.Archived == nil || !*p.Archived {
		t.Errorf("patch %+v", p)
	}
	patch(`{"archived":false}`)
	if p := f.patch; p.Title != nil || p.Model != nil || p.Provider != nil || p.Archived == nil || *p.Archived {
		t.Errorf("patch %+v", p)
	}
	if f.user != "alice" || !f.bound {
		t.Errorf("as %q, deadline %v", f.user, f.bound)
	}
}

func TestUpdateRefuses(t *testing.T) {
	f := &fakeSessions{}
	h := New(newConfig(f))
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"empty", ``, 400, "bad_request"},
		{"nothing", `{}`, 400, "bad_request"},
		{"only null", `{"title":null}`, 400, "bad_request"},
		{"unknown field", `{"title":"x","owner":"bob"}`, 400, "bad_request"},
		{"profile cannot be moved", `{"profile":"work"}`, 400, "bad_request"},
		{"wrong type", `{"title":5}`, 400, "bad_request"},
		{"array", `[]`, 400, "bad_request"},
		{"text", `"x"`, 400, "bad_request"},
		{"two values", `{"title":"x"}{"title":"y"}`, 400, "bad_request"},
		{"garbage after", `{"title":"x"} x`, 400, "bad_request"},
		{"cut", `{"title":"x"`, 400, "bad_request"},
		{"blank title", `{"title":" \n\t "}`, 400, "bad_request"},
		{"long title", `{"title":"` + strings.Repeat("ä", 257) + `"}`, 400, "bad_request"},
		{"control character", `{"model":"a\u0000b"}`, 400, "bad_request"},
		{"long model", `{"model":"` + strings.Repeat("a", 257) + `"}`, 400, "bad_request"},
		{"too large", `{"title":"` + strings.Repeat("a", maxBody) + `"}`, 413, "too_large"},
		{"too large behind the value", `{"title":"x"}` + strings.Repeat(" ", maxBody), 413, "too_large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := do(h, request("PATCH", "/chat-run/sessions/s1", "alice-token", "", tt.body))
			wantError(t, w, tt.status, tt.code)
			if strings.Contains(w.Body.String(), "owner") {
				t.Errorf("the answer quotes the body: %s", w.Body)
			}
		})
	}
	wantError(t, do(h, request("PATCH", "/chat-run/sessions/s1", "alice-token", "Content-Type: text/plain", "", `{"title":"x"}`)), 400, "bad_request")
	wantError(t, do(h, request("PATCH", "/chat-run/sessions/s1", "alice-token")), 400, "bad_request")
	if len(f.calls) > 0 {
		t.Errorf("the engine was asked: %q", f.calls)
	}
}

func TestDelete(t *testing.T) {
	f := &fakeSessions{}
	w := do(New(newConfig(f)), request("DELETE", "/chat-run/sessions/s1", "alice-token"))
	if w.Code != 204 || w.Body.Len() > 0 || !slices.Equal(f.calls, []string{"delete s1"}) || f.user != "alice" || !f.bound {
		t.Errorf("status %d, body %q, calls %q as %q", w.Code, w.Body, f.calls, f.user)
	}
	wantAPIHeaders(t, w)
}

// Every error of the engine on every route. AUT-01: a session of somebody else is
// ErrNotFound to the engine, and looks like an unknown one.
func TestEngineErrors(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		code   string
		text   string
	}{
		{engine.ErrNotFound, 404, "not_found", "Session not found"},
		{engine.ErrProfileDenied, 403, "profile_denied", "Profile access denied"},
		{engine.ErrBusy, 409, "busy", ""},
		{engine.ErrUnavailable, 503, "not_ready", ""},
		{fmt.Errorf("%w: disk /var/lib/x is full", engine.ErrUnavailable), 503, "not_ready", ""},
		{fmt.Errorf("%w: the title is empty", engine.ErrBadRequest), 400, "bad_request", "the title is empty"},
		{context.DeadlineExceeded, 503, "not_ready", ""},
		{errors.New("open /var/lib/x: no such file"), 500, "internal", ""},
	} {
		h := New(newConfig(&fakeSessions{err: tt.err}))
		for _, w := range []struct{ method, path, body string }{
			{"GET", "/chat-run/sessions", ""}, {"GET", "/chat-run/sessions/s1", ""}, {"GET", "/chat-run/sessions/s1/messages", ""},
			{"PATCH", "/chat-run/sessions/s1", `{"title":"x"}`}, {"DELETE", "/chat-run/sessions/s1", ""},
		} {
			answer := do(h, request(w.method, w.path, "alice-token", "", w.body))
			wantError(t, answer, tt.status, tt.code)
			if strings.Contains(answer.Body.String(), "/var/lib") || !strings.Contains(answer.Body.String(), tt.text) {
				t.Errorf("%v: answer %s", tt.err, answer.Body)
			}
		}
	}
}

func TestHostileSessionIDs(t *testing.T) {
	f := &fakeSessions{}
	h := New(newConfig(f))
	for _, id := range []string{
		"%2e%2e%2fetc", "a%2Fb", "a%5Cb", "a%00b", "a%0Ab", "a%20b", "%C3%A4", "%25", "a*", "{id}", strings.Repeat("a", 129), "a%3Fb", "",
	} {
		for method, body := range map[string]string{"GET": "", "DELETE": "", "PATCH": `{"title":"x"}`} {
			wantError(t, do(h, request(method, "/chat-run/sessions/"+id, "alice-token", "", body)), 404, "not_found")
		}
		wantError(t, do(h, request("GET", "/chat-run/sessions/"+id+"/messages", "alice-token")), 404, "not_found")
	}
	if len(f.calls) > 0 {
		t.Fatalf("the engine was asked: %q", f.calls)
	}
	for _, id := range []string{"20260101_101010_abc123", "a-b.c:d_E", strings.Repeat("a", 128)} {
		if w := do(h, request("GET", "/chat-run/sessions/"+id, "alice-token")); w.Code != 200 {
			t.Errorf("%q: status %d", id, w.Code)
		}
	}
}

func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "MTo", "MTphYmM", encodeCursor("20:s1"), encodeCursor("ä"), "!!", strings.Repeat("A", 2000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if cursor, ok := decodeCursor(s); ok && encodeCursor(cursor) != s {
			t.Errorf("%q decodes to %q, which encodes to %q", s, cursor, encodeCursor(cursor))
		}
	})
}

func FuzzPatch(f *testing.F) {
	for _, s := range []string{`{"title":"x"}`, `{}`, `[]`, `{"archived":true}`, `{"title":"x"}{}`, `{"Title":"\ud800"}`, "\xff"} {
		f.Add(s)
	}
	h := New(newConfig(&fakeSessions{}))
	f.Fuzz(func(t *testing.T, body string) {
		w := do(h, request("PATCH", "/chat-run/sessions/s1", "alice-token", "", body))
		if w.Code != 200 && w.Code != 400 && w.Code != 413 {
			t.Errorf("%q: status %d", body, w.Code)
		}
	})
}

package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// callTimeout bounds a call into the engine. The longest, a delete that first
// stops a run, may take 20 s.
const callTimeout = 30 * time.Second

func withDeadline(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), callTimeout)
}

// Numbers of rows in an answer.
const (
	defaultSessions = 50
	maxSessions     = 200
	defaultMessages = 150
	maxMessages     = 500
)

type listAnswer struct {
	Sessions []chatrun.SessionRow `json:"sessions"`
	Next     *string              `json:"next"`
}

type sessionAnswer struct {
	Session sessionDetail `json:"session"`
}

type sessionDetail struct {
	chatrun.SessionRow
	messagesAnswer
}

type messagesAnswer struct {
	Messages []chatrun.Message `json:"messages"`
	HasMore  bool              `json:"has_more"`
}

func (a *api) list(w http.ResponseWriter, r *http.Request, p *auth.Principal, _ string) error {
	q, err := listQuery(r.URL.Query())
	if err != nil {
		return err
	}
	if q.Profile != "" && !p.MayUse(q.Profile) {
		return errProfile
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	rows, next, err := a.cfg.Sessions.ListSessions(ctx, p, q)
	if err != nil {
		return err
	}
	answer := listAnswer{Sessions: rows}
	if rows == nil {
		answer.Sessions = []chatrun.SessionRow{}
	}
	if next != "" {
		cursor := encodeCursor(next)
		answer.Next = &cursor
	}
	return writeJSON(w, http.StatusOK, answer)
}

func (a *api) session(w http.ResponseWriter, r *http.Request, p *auth.Principal, id string) error {
	if !chatrun.ValidSessionID(id) {
		return errNoSession
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	row, err := a.cfg.Sessions.Session(ctx, p, id)
	if err != nil {
		return err
	}
	page, err := a.page(ctx, p, id, 0, defaultMessages)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, sessionAnswer{sessionDetail{row, page}})
}

func (a *api) messages(w http.ResponseWriter, r *http.Request, p *auth.Principal, id string) error {
	if !chatrun.ValidSessionID(id) {
		return errNoSession
	}
	before, limit, err := messagesQuery(r.URL.Query())
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	page, err := a.page(ctx, p, id, before, limit)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, page)
}

func (a *api) page(ctx context.Context, p *auth.Principal, id string, before int64, limit int) (messagesAnswer, error) {
	msgs, more, err := a.cfg.Sessions.Messages(ctx, p, id, before, limit)
	if msgs == nil {
		msgs = []chatrun.Message{}
	}
	return messagesAnswer{msgs, more}, err
}

func (a *api) update(w http.ResponseWriter, r *http.Request, p *auth.Principal, id string) error {
	if !chatrun.ValidSessionID(id) {
		return errNoSession
	}
	patch, err := readPatch(w, r)
	if err != nil {
		return err
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	row, err := a.cfg.Sessions.UpdateSession(ctx, p, id, engine.SessionPatch(patch))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, row)
}

func (a *api) remove(w http.ResponseWriter, r *http.Request, p *auth.Principal, id string) error {
	if !chatrun.ValidSessionID(id) {
		return errNoSession
	}
	ctx, cancel := withDeadline(r)
	defer cancel()
	if err := a.cfg.Sessions.DeleteSession(ctx, p, id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

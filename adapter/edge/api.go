package edge

import (
	"context"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
)

// sessions is the engine as the HTTP API sees it, which exists before and after
// the engine does.
type sessions struct{ core *Core }

// ListSessions implements httpapi.Sessions.
func (s sessions) ListSessions(ctx context.Context, p *auth.Principal, q engine.ListQuery) ([]chatrun.SessionRow, string, error) {
	e := s.core.engine()
	if e == nil {
		return nil, "", engine.ErrUnavailable
	}
	return e.ListSessions(ctx, p, q)
}

// Session implements httpapi.Sessions.
func (s sessions) Session(ctx context.Context, p *auth.Principal, sid string) (chatrun.SessionRow, error) {
	e := s.core.engine()
	if e == nil {
		return chatrun.SessionRow{}, engine.ErrUnavailable
	}
	return e.Session(ctx, p, sid)
}

// Messages implements httpapi.Sessions.
func (s sessions) Messages(ctx context.Context, p *auth.Principal, sid string, before int64, limit int) ([]chatrun.Message, bool, error) {
	e := s.core.engine()
	if e == nil {
		return nil, false, engine.ErrUnavailable
	}
	return e.Messages(ctx, p, sid, before, limit)
}

// UpdateSession implements httpapi.Sessions.
func (s sessions) UpdateSession(ctx context.Context, p *auth.Principal, sid string, patch engine.SessionPatch) (chatrun.SessionRow, error) {
	e := s.core.engine()
	if e == nil {
		return chatrun.SessionRow{}, engine.ErrUnavailable
	}
	return e.UpdateSession(ctx, p, sid, patch)
}

// DeleteSession implements httpapi.Sessions.
func (s sessions) DeleteSession(ctx context.Context, p *auth.Principal, sid string) error {
	e := s.core.engine()
	if e == nil {
		return engine.ErrUnavailable
	}
	return e.DeleteSession(ctx, p, sid)
}

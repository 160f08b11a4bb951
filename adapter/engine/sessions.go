package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

const (
	listLimit     = 200
	messageBytes  = 4 << 20
	messagesLimit = 500
	manualTitle   = 120 // UTF-16 units of a title set by hand
)

// ListSessions answers a page of the sessions that p may open, latest activity
// first, and the cursor of the next page.
func (e *Engine) ListSessions(ctx context.Context, p *auth.Principal, q ListQuery) (rows []chatrun.SessionRow, next string, err error) {
	profiles := p.Visible()
	if q.Profile != "" {
		if !p.MayUse(q.Profile) {
			return nil, "", ErrProfileDenied
		}
		profiles = []string{q.Profile}
	}
	query := store.ListQuery{Profiles: profiles, Text: q.Text, Archived: q.Archived, Before: q.Before, Limit: min(max(q.Limit, 1), listLimit)}
	if !p.Admin && !p.Shared {
		query.Owner = p.User
	}
	page, err := e.cfg.Store.List(ctx, query)
	if err != nil {
		return nil, "", unavailable(err)
	}
	rows = make([]chatrun.SessionRow, 0, len(page.Sessions))
	for i := range page.Sessions {
		if head := &page.Sessions[i]; p.MayOpen(head.Owner, head.Profile) {
			rows = append(rows, sessionRow(head))
		}
	}
	return rows, page.Next, nil
}

// Session answers one session. A session of somebody else is not found.
func (e *Engine) Session(ctx context.Context, p *auth.Principal, sid string) (chatrun.SessionRow, error) {
	head, err := e.openHead(ctx, p, sid)
	if err != nil {
		return chatrun.SessionRow{}, err
	}
	return sessionRow(&head), nil
}

// openHead answers the root of a session that p may open.
func (e *Engine) openHead(ctx context.Context, p *auth.Principal, sid string) (store.Session, error) {
	if !chatrun.ValidSessionID(sid) {
		return store.Session{}, ErrNotFound
	}
	head, err := e.head(ctx, sid)
	switch {
	case err != nil:
		return head, unavailable(err)
	case !head.Exists() || !p.MayOpen(head.Owner, head.Profile):
		return head, ErrNotFound
	default:
		return head, nil
	}
}

// Messages answers a page of the transcript: the newest rows with id < before (0:
// the newest of all), in ascending order, and whether there are older ones.
func (e *Engine) Messages(ctx context.Context, p *auth.Principal, sid string, before int64, limit int) ([]chatrun.Message, bool, error) {
	for {
		head, err := e.openHead(ctx, p, sid)
		if err != nil {
			return nil, false, err
		}
		code, rows, more, err := e.cfg.Store.Rows(ctx, sid, head.Generation, before, min(max(limit, 1), messagesLimit), messageBytes)
		if err != nil {
			return nil, false, unavailable(err)
		}
		if code != store.Stale {
			return messages(sid, rows), more, nil
		}
	}
}

// UpdateSession changes attributes of a session and tells those who follow it. A
// title set here is manual: no generated one replaces it (R14).
func (e *Engine) UpdateSession(ctx context.Context, p *auth.Principal, sid string, patch SessionPatch) (chatrun.SessionRow, error) {
	head, err := e.openHead(ctx, p, sid)
	if err != nil {
		return chatrun.SessionRow{}, err
	}
	args := store.UpdateArgs{
		SID: sid, Guard: guardOf(head), Stamp: newStamp(), NotAfter: e.cfg.Store.Now() + store.NotAfter.Milliseconds(),
		Patch: store.MetaPatch{Model: patch.Model, Provider: patch.Provider, Archived: patch.Archived},
	}
	if patch.Title != nil {
		title := chatrun.Cut(strings.Join(strings.Fields(*patch.Title), " "), manualTitle)
		if title == "" {
			return chatrun.SessionRow{}, fmt.Errorf("%w: the title is empty", ErrBadRequest)
		}
		manual := store.TitleManual
		args.Patch.Title, args.Patch.TitleSource = &title, &manual
		args.Events = []store.NewEntry{{
			Kind: store.KindNote, Name: chatrun.EventTitleUpdated, Payload: chatrun.TitleUpdated(sid, title),
		}}
	}
	code, now, err := e.cfg.Store.Update(ctx, args)
	switch {
	case err != nil:
		return chatrun.SessionRow{}, unavailable(err)
	case code == store.OK:
		return sessionRow(&now), nil
	case code == store.None, code == store.Forbidden:
		return chatrun.SessionRow{}, ErrNotFound
	case code == store.Changed:
		return chatrun.SessionRow{}, ErrBusy
	default:
		return chatrun.SessionRow{}, ErrUnavailable
	}
}

// DeleteSession removes a session. An active run is stopped first; its watchers
// get the ending and are told that the session has gone.
func (e *Engine) DeleteSession(ctx context.Context, p *auth.Principal, sid string) error {
	head, err := e.openHead(ctx, p, sid)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, abortWait)
	defer cancel()
	changed := make(chan struct{}, 1)
	sub, err := e.cfg.Store.Subscribe(ctx, sid, func(store.Hint) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return unavailable(err)
	}
	defer sub.Close()
	op := randomID(8)
	code, err := e.cfg.Store.Delete(ctx, sid, guardOf(head), op, e.cfg.Store.Now()+store.NotAfter.Milliseconds())
	switch {
	case err != nil:
		return unavailable(err)
	case code == store.Done:
		return nil
	case code == store.None, code == store.Forbidden:
		return ErrNotFound
	case code != store.Busy:
		return ErrUnavailable
	}
	return e.stopAndAwait(ctx, head, changed)
}

// stopAndAwait aborts the run of a session marked for deletion and waits until
// the session is gone.
func (e *Engine) stopAndAwait(ctx context.Context, head store.Session, changed <-chan struct{}) error {
	s := e.acquire(head.SID)
	defer e.release(s)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		now, err := e.head(ctx, head.SID)
		if err == nil && now.Incarnation != head.Incarnation {
			return nil
		}
		if err == nil && now.Run.Run != "" {
			err = s.stopRun(ctx, now)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return unavailable(err)
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return ErrBusy
		}
	}
}

func (s *session) stopRun(ctx context.Context, head store.Session) error {
	res, err := s.e.requestAbort(ctx, head, head.Run.Run, "")
	if err != nil {
		return err
	}
	if (res.Code == store.OK || res.Code == store.Already) && !res.Alive {
		return s.takeOver(ctx)
	}
	s.stopHere(head.Run.Run)
	return nil
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", ErrUnavailable, err) }

// sessionRow renders a session for lists and the HTTP API.
func sessionRow(head *store.Session) chatrun.SessionRow {
	row := chatrun.SessionRow{
		ID: head.SID, Profile: head.Profile, Source: head.Source, Preview: head.Preview,
		UserID: textOrNull(head.Owner), Model: textOrNull(head.Model), Provider: textOrNull(head.Provider), Title: textOrNull(head.Title),
		StartedAt: head.Created / 1000, LastActive: head.Updated / 1000,
		MessageCount: head.Messages, ToolCallCount: head.ToolCalls,
		InputTokens: head.Usage.Input, OutputTokens: head.Usage.Output, CacheReadTokens: head.Usage.CacheRead,
		CacheWriteTokens: head.Usage.CacheWrite, ReasoningTokens: head.Usage.Reasoning,
		Archived: head.Archived, IsWorking: head.Busy(),
	}
	return row
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of a snapshot (contract section 10) and of a recovery (section 6).
const (
	snapshotRows    = 500
	snapshotBytes   = 4 << 20
	recoveryEntries = 2000
)

// Pauses between tries of a request that waits for the store.
const (
	waitFirst = 100 * time.Millisecond
	waitMost  = 500 * time.Millisecond
)

// Resume answers the client event resume (chat-run section 6): the socket gets
// the session as it stands and everything that happens from there on. A session
// that it may not open looks like one that does not exist, and is not followed.
func (e *Engine) Resume(ctx context.Context, sock Socket, raw json.RawMessage) {
	req, ok := chatrun.ParseSession(raw)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	s := e.acquire(req.SessionID)
	defer e.release(s)
	err := e.patiently(ctx, sock, func() error { return s.resume(ctx, sock) })
	if err != nil && !sock.Gone() {
		e.log.Warn("resume failed", zap.String("session", req.SessionID), zap.Error(err))
		sock.Close(CloseStore)
	}
}

// patiently tries again what the store was not there for, as long as somebody waits.
func (e *Engine) patiently(ctx context.Context, sock Socket, try func() error) error {
	for delay := waitFirst; ; delay = min(2*delay, waitMost) {
		err := try()
		if !away(err) || e.ctx.Err() != nil || sock.Gone() || pause(ctx, delay) != nil {
			return err
		}
	}
}

// away reports whether a call has failed because the store did not answer.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// resume is snapshot, then follow (contract 5.8).
func (s *session) resume(ctx context.Context, sock Socket) error {
	if err := s.ensureOpen(ctx); err != nil {
		return err
	}
	s.hold(sock)
	defer s.unhold(sock)
	for {
		view, err := s.loadView(ctx)
		if err != nil {
			return err
		}
		if view.snap.Session.Exists() && !mayOpenHead(sock, view.snap.Session) {
			sock.Send(resumedEvent(chatrun.Resumed{SessionID: s.sid, MessagePageLimit: snapshotRows}), Room{})
			return nil
		}
		ev := resumedEvent(view.resumed(s.sid))
		sent := true
		s.box.do(func() { sent = s.place(sock, ev, view.snap.Session) })
		if sent {
			if err := s.takeOverIfOrphan(ctx, view.snap.Session); err != nil {
				s.logger().Warn("orphan not taken over; the sweep finds it", zap.Error(err))
			}
			return nil
		}
		if err := waitDrained(ctx, sock); err != nil {
			return err
		}
	}
}

// place sends `resumed` and follows from where it was taken, in one step of the
// tail: entries up to the snapshot are never sent, those behind it always are.
func (s *session) place(sock Socket, ev *Event, head store.Session) bool {
	s.follow()
	at, ep := head.Head, head.Incarnation
	if !head.Exists() {
		at = store.Origin
	}
	if ep != s.ep {
		// Made, deleted or made anew since the snapshot: it shows nothing of the
		// incarnation that is followed now.
		at = store.Origin
	}
	if !sock.Send(ev, Room{SessionID: s.sid, Incarnation: s.ep, Position: at, ShownRun: head.Run.Run}) {
		return false
	}
	s.join(sock, at, head.Run.Run)
	return true
}

func waitDrained(ctx context.Context, sock Socket) error {
	drained := make(chan struct{})
	sock.Drained(func() { close(drained) })
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func mayOpenHead(sock Socket, head store.Session) bool {
	return sock.Principal().MayOpen(head.Owner, head.Profile)
}

func resumedEvent(r chatrun.Resumed) *Event {
	return &Event{Name: chatrun.EventResumed, Payload: r.Encode()}
}

// sessionView is one consistent view: a snapshot with the rows below it.
type sessionView struct {
	snap store.Snapshot
	rows []store.Row
	more bool
	run  *chatrun.View
}

// loadView takes a snapshot and its rows. The rows of one history generation are
// immutable; a changed generation means that the snapshot is stale.
func (s *session) loadView(ctx context.Context) (sessionView, error) {
	for {
		snap, err := s.snapshots.get(ctx, func(ctx context.Context) (store.Snapshot, error) {
			return s.e.cfg.Store.Snapshot(ctx, s.sid)
		})
		if err != nil || !snap.Session.Exists() {
			return sessionView{snap: snap, run: &chatrun.View{}}, err
		}
		head := snap.Session
		code, rows, more, err := s.e.cfg.Store.Rows(ctx, s.sid, head.Generation, head.LastRow+1, snapshotRows, snapshotBytes)
		if err != nil {
			return sessionView{}, err
		}
		if code == store.Stale {
			continue
		}
		return sessionView{snap: snap, rows: rows, more: more, run: foldRun(snap.Checkpoint, snap.Entries, head.Run.Run)}, nil
	}
}

// foldRun folds the active run: its checkpoint and the entries behind it.
func foldRun(checkpoint []byte, entries []store.Entry, run string) *chatrun.View {
	view, err := chatrun.DecodeView(checkpoint)
	if err != nil {
		view = &chatrun.View{}
	}
	for i := range entries {
		en := &entries[i]
		if en.Run != run || en.Name == "" {
			continue
		}
		payload := en.Payload
		if en.Kind == store.KindStarted {
			payload = chatrun.WithNumber(payload, "queue_length", int64(en.QueueLength))
		}
		view.Apply(en.Name, payload)
	}
	return view
}

// resumed renders the view as the payload of section 6.2.
func (v sessionView) resumed(sid string) chatrun.Resumed {
	head := v.snap.Session
	r := chatrun.Resumed{
		SessionID: sid, IsWorking: head.Busy(), IsAborting: head.Run.Abort,
		InputTokens: head.Usage.Input, OutputTokens: head.Usage.Output, ContextTokens: head.Usage.Context,
		MessageTotal: head.Messages, MessagePageLimit: snapshotRows, HasMoreBefore: v.more,
		Messages: messages(sid, v.rows),
	}
	if head.Run.Run != "" {
		r.Events = v.run.Ring()
		if m, ok := v.run.OpenMessage(head.LastRow+1, sid, head.Updated); ok {
			r.Messages = append(r.Messages, m)
		}
	}
	for _, it := range v.snap.Queue {
		if m, ok := queuedMessage(it.QID, it.Row.Data, it.Accepted); ok {
			r.QueueMessages = append(r.QueueMessages, m)
		}
	}
	return r
}

func messages(sid string, rows []store.Row) []chatrun.Message {
	out := make([]chatrun.Message, 0, len(rows)+1)
	for _, row := range rows {
		if data, err := chatrun.DecodeRow(row.Data); err == nil {
			out = append(out, data.Message(row.ID, sid, row.Time))
		}
	}
	return out
}

// Recover lets a recovered connection go on with a session from where it stood
// (contract section 6.5). What it missed is sent if the log still has it and it is
// little enough; else the ending it is owed, `resumed`, and then the log.
func (e *Engine) Recover(ctx context.Context, sock Socket, r Room) {
	ctx, cancel := context.WithTimeout(ctx, resumeTimeout)
	defer cancel()
	s := e.acquire(r.SessionID)
	defer e.release(s)
	err := e.patiently(ctx, sock, func() error {
		if err := s.ensureOpen(ctx); err != nil {
			return err
		}
		return s.recover(ctx, sock, &r)
	})
	if err != nil && !sock.Gone() {
		e.log.Warn("recovery failed", zap.String("session", r.SessionID), zap.Error(err))
		sock.Close(CloseStore)
	}
}

func (s *session) recover(ctx context.Context, sock Socket, r *Room) error {
	head, err := s.e.head(ctx, s.sid)
	if err != nil {
		return err
	}
	if head.Exists() && !mayOpenHead(sock, head) {
		sock.Left(s.sid)
		return nil
	}
	if head.Exists() && head.Incarnation == r.Incarnation && r.Position.Offset > 0 &&
		head.Head.Offset-r.Position.Offset <= recoveryEntries {
		res, err := s.e.cfg.Store.ReadLog(ctx, s.sid, r.Incarnation, r.Position, 1)
		if err != nil {
			return err
		}
		if res.Code == store.OK {
			s.box.do(func() {
				s.follow()
				s.join(sock, r.Position, r.ShownRun)
			})
			return nil
		}
	}
	if r.ShownRun != "" {
		if ev := s.e.endingOf(ctx, s.sid, r.ShownRun); ev != nil {
			sock.Send(ev, Room{SessionID: s.sid, Incarnation: r.Incarnation, Position: r.Position, Volatile: true})
			r.ShownRun = "" // told, whatever becomes of the rest
		}
	}
	return s.resume(ctx, sock)
}

// recently reports whether a moment is close enough to have been meant.
func recently(t time.Time) bool { return !t.IsZero() && time.Since(t) < recentEnding }

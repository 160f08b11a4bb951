package engine

import (
	"context"
	"encoding/json"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Abort answers the client event abort (chat-run section 7, contract 5.5). It is
// bound to the run that the socket shows, so that a click never hits a later run.
func (e *Engine) Abort(ctx context.Context, sock Socket, raw json.RawMessage) {
	req, ok := chatrun.ParseSession(raw)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s := e.acquire(req.SessionID)
	defer e.release(s)
	if err := s.abort(ctx, sock); err != nil {
		e.log.Warn("abort failed", zap.String("session", req.SessionID), zap.Error(err))
	}
}

func (s *session) abort(ctx context.Context, sock Socket) error {
	head, err := s.e.head(ctx, s.sid)
	if err != nil {
		return s.abortUnseen(sock, err)
	}
	if !head.Exists() || !mayOpenHead(sock, head) {
		sock.Send(s.abortIgnored(), Room{})
		return nil
	}
	shown, meantEnded := "", false
	s.box.do(func() {
		if m := s.members[sock]; m != nil {
			shown, meantEnded = m.shown, m.shown == "" && recently(m.endedAt)
		}
	})
	if meantEnded {
		return nil
	}
	target := shown
	if target == "" {
		target = head.Run.Run
	}
	if target == "" {
		sock.Send(s.abortIgnored(), Room{})
		return nil
	}
	return s.abortRun(ctx, sock, head, target, shown != "")
}

func (s *session) abortRun(ctx context.Context, sock Socket, head store.Session, run string, shown bool) error {
	res, err := s.e.requestAbort(ctx, head, run, sock.ID())
	if err != nil {
		return s.abortUnseen(sock, err)
	}
	switch res.Code {
	case store.OK, store.Already:
		if !res.Alive {
			return s.takeOver(ctx)
		}
		s.stopHere(run)
	case store.None, store.Ended, store.Forbidden:
		if !shown {
			sock.Send(s.abortIgnored(), Room{})
		}
	}
	return nil
}

// abortUnseen stops a run of this node although the store cannot be asked: a member
// that shows it may do so. The store is told as soon as it answers (contract 9.2).
func (s *session) abortUnseen(sock Socket, cause error) error {
	var r *runner
	run := ""
	s.box.do(func() {
		if m := s.members[sock]; m != nil && m.shown != "" && s.runner != nil && s.runner.runs(m.shown) {
			r, run = s.runner, m.shown
		}
	})
	if r == nil || !s.e.lossy() {
		return cause
	}
	if r.abort(run) {
		s.e.spawn(func() { s.e.recordAbort(s.sid, r.guard, run, sock.ID()) })
	}
	return nil
}

// recordAbort tells the store of a stop until it answers. It reports whether the run
// is marked as aborted.
func (e *Engine) recordAbort(sid string, g store.Guard, run, cid string) bool {
	var res store.AbortResult
	answered := e.untilAnswered(func(ctx context.Context) error {
		head, err := e.head(ctx, sid)
		if err == nil {
			head.SID, head.Owner, head.Profile = sid, g.Owner, g.Profile
			res, err = e.requestAbort(ctx, head, run, cid)
		}
		return err
	})
	return answered && (res.Code == store.OK || res.Code == store.Already)
}

// requestAbort records the wish with the run.
func (e *Engine) requestAbort(ctx context.Context, head store.Session, run, cid string) (store.AbortResult, error) {
	entry := store.NewEntry{
		Kind: store.KindAbort, Name: chatrun.EventAbortStarted,
		Payload: chatrun.AbortStarted(head.SID, head.Run.WireID),
	}
	return e.cfg.Store.RequestAbort(ctx, head.SID, guardOf(head), run, cid, entry)
}

// stopHere stops the run at once if this node owns it; another owner learns of
// the abort from the store.
func (s *session) stopHere(run string) {
	s.box.do(func() {
		if s.runner != nil {
			s.runner.abort(run)
		}
	})
}

func (s *session) abortIgnored() *Event {
	return &Event{Name: chatrun.EventAbortCompleted, Payload: chatrun.AbortIgnored(s.sid)}
}

// CancelQueued answers the client event cancel_queued_run (chat-run 2.4). The new
// list reaches everybody, the sender too, through the log; an item that does not
// wait is ignored in silence (CR-51).
func (e *Engine) CancelQueued(ctx context.Context, sock Socket, raw json.RawMessage) {
	req, ok := chatrun.ParseSession(raw)
	if !ok || req.QueueID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	head, err := e.head(ctx, req.SessionID)
	if err == nil && head.Exists() && mayOpenHead(sock, head) {
		_, err = e.cfg.Store.CancelQueued(ctx, req.SessionID, guardOf(head), req.QueueID)
	}
	if err != nil {
		e.log.Warn("queued message not cancelled", zap.String("session", req.SessionID), zap.Error(err))
	}
}

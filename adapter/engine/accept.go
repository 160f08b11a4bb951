package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// runOptions are the options of a message, kept with it until it runs (D-38).
type runOptions struct {
	Model        string `json:"model,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Instructions string `json:"instructions,omitempty"`
}

// refusal is a cause that the sender is told; nothing was accepted.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

// Run answers the client event run (chat-run 2.1, contract 5.1): the message is
// stored, and either begins or waits, or the sender is told why not.
func (e *Engine) Run(ctx context.Context, sock Socket, raw json.RawMessage) {
	req, err := chatrun.ParseRun(raw)
	if err != nil {
		sock.Send(refusedEvent(req.SessionID, req.QueueID, err.Error()), Room{})
		return
	}
	s := e.acquire(req.SessionID)
	defer e.release(s)
	if err := s.accept(ctx, sock, req); err != nil {
		sock.Send(refusedEvent(req.SessionID, req.QueueID, e.causeOf(err)), Room{})
	}
}

func refusedEvent(sid, qid, cause string) *Event {
	if !chatrun.ValidSessionID(sid) {
		sid = ""
	}
	return &Event{Name: chatrun.EventRunFailed, Payload: chatrun.RunRefused(sid, qid, cause)}
}

// causeOf turns an error into what a user may read.
func (e *Engine) causeOf(err error) string {
	var r refusal
	if errors.As(err, &r) {
		return r.text
	}
	e.log.Warn("message not accepted", zap.Error(err))
	return "The message could not be stored; it will not be run. Please send it again."
}

func (s *session) accept(ctx context.Context, sock Socket, req chatrun.RunRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.ensureOpen(ctx); err != nil {
		return err
	}
	head, err := s.e.head(ctx, s.sid)
	if err != nil {
		return err
	}
	args, err := s.e.submission(sock, req, head)
	if err != nil {
		return err
	}
	res, err := s.submit(ctx, args)
	if err != nil {
		return err
	}
	return s.accepted(ctx, sock, args, res)
}

// submission builds the Submit of a message: who may run it, where, as what.
func (e *Engine) submission(sock Socket, req chatrun.RunRequest, head store.Session) (store.SubmitArgs, error) {
	profile, err := e.profileOf(sock, req, head)
	if err != nil {
		return store.SubmitArgs{}, err
	}
	class, _, err := e.cfg.Executors(profile)
	if err != nil {
		return store.SubmitArgs{}, refusal{err.Error()}
	}
	guard := guardOf(head)
	if !head.Exists() {
		guard = store.Guard{Owner: sock.Principal().User, Profile: profile}
	}
	if max := e.cfg.Limits().RunsPerUser; max > 0 && !head.Busy() && e.runsOf(guard.Owner) >= max {
		return store.SubmitArgs{}, refuse("Too many chats are running (at most %d); wait for one to end", max)
	}
	opts, err := json.Marshal(runOptions{req.Model, req.Provider, req.Instructions})
	if err != nil {
		return store.SubmitArgs{}, err
	}
	stored := req.Input.Stored()
	digest := sha256.Sum256(append(slices.Clone(opts), stored...))
	qid := req.QueueID
	if qid == "" {
		qid = newQueueID()
	}
	args := store.SubmitArgs{
		SID: head.SID, Guard: guard, NotAfter: e.cfg.Store.Now() + store.NotAfter.Milliseconds(),
		Create: store.Attrs{
			Source: sourceOf(req.Source), Model: req.Model, Provider: req.Provider,
			Title: chatrun.Title(req.Input.PlainText()), Preview: chatrun.Preview(req.Input.PlainText()),
		},
		Item: store.Item{
			QID: qid, Run: randomID(16), Digest: hex.EncodeToString(digest[:16]), Executor: class,
			CID: sock.ID(), Profile: profile, Options: opts,
			Row: store.NewRow{Role: store.RoleUser, Data: chatrun.RowData{
				Role: string(store.RoleUser), Content: stored, QueueID: req.QueueID,
			}.Encode()},
		},
	}
	args.SID = req.SessionID
	if e.mayBegin() {
		args.Start = &store.Start{Token: e.newToken(), Node: e.cfg.Node, TTL: store.LeaseTTL}
	}
	return args, nil
}

// profileOf resolves the profile of a run (chat-run 11.3): the stored one wins,
// and nobody runs where he may not.
func (e *Engine) profileOf(sock Socket, req chatrun.RunRequest, head store.Session) (string, error) {
	p := sock.Principal()
	asked := req.Profile
	if asked != "" && (!chatrun.ValidProfile(asked) || !slices.Contains(e.cfg.Profiles(), asked)) {
		return "", refuse("Profile %q does not exist", chatrun.Cut(asked, 64))
	}
	profile := asked
	switch {
	case head.Exists():
		profile = head.Profile
	case asked == "":
		profile = sock.Profile()
	}
	if asked != "" && !p.MayUse(asked) {
		return "", refuse("Profile %q is not available for this user", asked)
	}
	if !p.MayUse(profile) {
		return "", refuse("Profile %q is not available for this user", profile)
	}
	if head.Exists() && !p.MayOpen(head.Owner, head.Profile) {
		return "", refuse("This chat is not available for this user")
	}
	if asked != "" && asked != profile && !p.Admin {
		return "", refuse("This chat belongs to profile %q; open it there", profile)
	}
	return profile, nil
}

func sourceOf(asked string) string {
	if asked == chatrun.SourceAPIServer {
		return chatrun.SourceAPIServer
	}
	return chatrun.SourceCLI
}

// newQueueID makes an id for a message without one (chat-run 2.1).
func newQueueID() string {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyz"
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = digits[rand.IntN(len(digits))]
	}
	return "queue_" + strconv.FormatInt(time.Now().UnixMilli(), 36) + "_" + string(suffix)
}

// submit offers the message until the store answers or the budget is over. A
// message that the sender is told was not stored is withdrawn, so that it never
// runs behind his back. A store that may have lost writes between two tries gets its
// index entry again, and begins nothing.
func (s *session) submit(ctx context.Context, args store.SubmitArgs) (store.SubmitResult, error) {
	generation := s.e.generation()
	err := s.e.cfg.Store.Arm(ctx, s.sid, store.NotAfter+store.LeaseTTL)
	try, doubt := args, false // doubt: a try may have been executed, or be so later
	for err == nil {
		var res store.SubmitResult
		res, err = s.e.cfg.Store.Submit(ctx, try)
		if err == nil && (res.Code != store.Expired || ctx.Err() != nil) {
			return res, nil
		}
		if err == nil {
			try.NotAfter = res.Now + store.NotAfter.Milliseconds()
		}
		away := errors.Is(err, store.ErrUnavailable)
		if away && generation == s.e.generation() {
			break
		}
		doubt = doubt || err != nil && !away
		if err = ctx.Err(); err == nil && generation != s.e.generation() {
			generation, try.Start = s.e.generation(), nil
			err = s.e.cfg.Store.Arm(ctx, s.sid, store.NotAfter+store.LeaseTTL)
		}
	}
	if doubt {
		s.e.withdraw(args)
		return store.SubmitResult{}, refuse("The message could not be stored in time; it will not be run")
	}
	return store.SubmitResult{}, err
}

// accepted acts on the store's answer.
func (s *session) accepted(ctx context.Context, sock Socket, args store.SubmitArgs, res store.SubmitResult) error {
	switch res.Code {
	case store.Started:
		r := newRunner(s, args.Guard, args.Start.Token)
		r.fence = res.Fence
		s.box.do(func() {
			s.welcome(sock, res, args.Item.Run)
			s.runner = r
			s.follow()
		})
		r.start(&args.Item, res.Row)
		return nil
	case store.Queued:
		s.box.do(func() {
			s.welcome(sock, res, "")
			s.follow()
		})
		if res.Orphan {
			return s.takeOver(ctx)
		}
		return nil
	case store.Repeat:
		return s.repeat(ctx, sock, res)
	case store.Conflict:
		return refuse("A different message was already sent under this queue id")
	case store.Full:
		return refuse("The queue of this chat is full; wait for a message to be answered")
	case store.Deleting:
		return refuse("This chat is being deleted")
	case store.Forbidden:
		return refuse("This chat is not available for this user")
	case store.Withdrawn, store.Expired:
		return refuse("The message could not be stored in time; it will not be run")
	default:
		return fmt.Errorf("store answered %q to a message", res.Code)
	}
}

// welcome makes the sender a member from the entry before its own message on.
func (s *session) welcome(sock Socket, res store.SubmitResult, shown string) {
	if s.ep != res.Incarnation {
		s.follow()
	}
	m := s.members[sock]
	if m == nil {
		m = s.join(sock, res.Before, "")
	}
	if m != nil && shown != "" {
		m.shown = shown
	}
}

// repeat answers a message that was accepted before (QUE-04): it never runs again
// and adds nothing. A socket that follows the session learns all from the log, but
// for an ending that was written before it came; any other gets the state directly
// and follows from now on.
func (s *session) repeat(ctx context.Context, sock Socket, res store.SubmitResult) error {
	informed := false
	s.box.do(func() {
		if m := s.members[sock]; m != nil {
			informed = !res.State.Ended() || m.ended == res.Run || m.shown != "" && res.State != store.StateCancelled
		}
	})
	if informed {
		return nil
	}
	for {
		view, err := s.loadView(ctx)
		if err != nil {
			return err
		}
		told := true
		s.box.do(func() {
			s.follow()
			head := view.snap.Session.Head
			m := s.members[sock]
			if told = m == nil || s.pos == head || ctx.Err() != nil; !told {
				return // to a member it would be older or newer than what the log has brought
			}
			for _, ev := range s.stateEvents(view, res) {
				sock.Send(ev, Room{})
			}
			if m == nil {
				s.join(sock, head, view.snap.Session.Run.Run)
			}
		})
		if told {
			return nil
		}
	}
}

// stateEvents tells what has become of a repeated message.
func (s *session) stateEvents(view sessionView, res store.SubmitResult) []*Event {
	head := view.snap.Session
	switch {
	case res.State == store.StateQueued, res.State == store.StateCancelled:
		queue := view.resumed(s.sid).QueueMessages
		return []*Event{{Name: chatrun.EventRunQueued, Payload: chatrun.RunQueued(s.sid, queue, "")}}
	case res.State == store.StateActive && head.Run.Run == res.Run && head.Run.WireID != "":
		id := head.Run.WireID
		started := chatrun.WithNumber(chatrun.RunStarted(s.sid, id, "in_progress"), "queue_length", int64(head.QueueLength))
		events := []*Event{{Name: chatrun.EventRunStarted, Payload: started}}
		if text := view.run.Text(); text != "" {
			events = append(events, &Event{Name: chatrun.EventMessageDelta, Payload: chatrun.MessageDelta(s.sid, id, text)})
		}
		return events
	case res.State.Ended():
		return []*Event{endingFromRows(s.sid, res.Run, view.rows, tokensOf(head.Usage), head.QueueLength)}
	default:
		return nil
	}
}

// withdrawLimit bounds the messages that wait for their withdrawal (contract 5.1.8).
const withdrawLimit = 10_000

// withdraw makes sure, in the background, that a message told as failed never
// runs. It keeps quiet while the store settles: what was accepted may be missing for
// the moment. A node that drains tries once more at once.
func (e *Engine) withdraw(args store.SubmitArgs) {
	if e.withdrawals.Add(1) > withdrawLimit {
		e.withdrawals.Add(-1)
		e.log.Warn("too many messages wait for their withdrawal; one may be run", zap.String("session", args.SID))
		return
	}
	spawned := e.spawn(func() {
		defer e.withdrawals.Add(-1)
		leaving := e.leaving
		for delay := 50 * time.Millisecond; e.settled(e.ctx) == nil; delay = min(2*delay, 5*time.Second) {
			ctx, cancel := context.WithTimeout(e.ctx, callTimeout)
			res, err := e.cfg.Store.Withdraw(ctx, args.SID, args.Item.QID, args.Item.Run)
			cancel()
			if err == nil {
				if res.Code == store.Active && args.Start != nil && res.Token == args.Start.Token {
					e.failUnsent(args, res)
				}
				return
			}
			select {
			case <-time.After(delay):
			case <-leaving:
				leaving = nil
			case <-e.ctx.Done():
			}
		}
	})
	if !spawned {
		e.withdrawals.Add(-1)
	}
}

// failUnsent ends a run that began although its sender was told that it would not:
// nothing was sent upstream, and nothing will be.
func (e *Engine) failUnsent(args store.SubmitArgs, res store.WithdrawResult) {
	s := e.acquire(args.SID)
	defer e.release(s)
	r := newRunner(s, args.Guard, args.Start.Token)
	r.seq = res.Seq
	s.box.do(func() { s.runner = r })
	r.startFailed(&args.Item, "The message could not be stored in time; it was not run")
}

package edge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/engine"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
)

// Texts for clients beside those of package chatrun.
const (
	textUnavailable = "Authentication is not available at the moment"
	textExpired     = "Your sign-in has expired: sign in again"
	textNotObject   = "The payload of run must be an object"
)

// now is the wall clock: credentials end by it.
func now() time.Time { return time.Now() }

// namespace handles /chat-run (chat-run 1 and 2).
type namespace struct{ core *Core }

var _ socketio.PongHandler = namespace{}

// Connect admits a client (chat-run 1.6): the rules of its mount decide, in every
// case, recovery included.
func (n namespace) Connect(ctx context.Context, conn *socketio.Socket, payload json.RawMessage) (socketio.Welcome, error) {
	c := n.core
	if !c.ready() {
		// A refusal would keep the client from trying again.
		conn.Conn().Close(reasonGoing)
		return socketio.Welcome{}, &socketio.Refused{Message: "The server is " + c.Status()}
	}
	adm, ok := conn.Conn().Meta().(*admission)
	if !ok {
		return socketio.Welcome{}, errors.New("connection without admission")
	}
	ask := parseConnect(payload)
	cred := adm.credentials
	if ask.token != "" {
		cred.Token = ask.token
	}
	p, err := adm.rules.Authenticate(ctx, cred)
	if err == nil && p.Expired(now()) {
		err = auth.ErrFailed
	}
	if err != nil {
		return socketio.Welcome{}, c.refuse(adm, err)
	}
	return c.join(ctx, conn, p, cred.Profile, ask)
}

// refuse turns an error of authentication into what the client is told.
func (c *Core) refuse(adm *admission, err error) error {
	c.deps.Metrics.AuthFailed(failureLabel(err))
	message := textUnavailable
	switch {
	case errors.Is(err, auth.ErrFailed):
		message = chatrun.TextAuthenticationFailed
	case errors.Is(err, auth.ErrProfile):
		message = chatrun.TextProfileDenied
	}
	c.log.Info("connection refused", zap.String("client_ip", adm.clientIP), zap.String("reason", message))
	return &socketio.Refused{Message: message}
}

// join makes the socket of an admitted client, with the identity and the rooms of
// the connection it continues if there is one.
func (c *Core) join(ctx context.Context, conn *socketio.Socket, p *auth.Principal, profile string, ask connectRequest) (socketio.Welcome, error) {
	g := c.gen.Load()
	s := &socket{core: c, conn: conn, user: p.User, profile: profile}
	s.principal.Store(p)
	s.holder = c.node + holderSeparator + randomName(8)
	if g.settings.Timeouts.Recovery > 0 && !c.restore(ctx, s, ask) {
		s.pid = randomName(16)
		s.track.prefix = pidPrefix(s.pid)
	}
	if s.id == "" {
		s.id = randomName(10)
	}
	if s.profile == "" {
		s.profile = auth.DefaultProfile
	}
	if limit := g.settings.Limits.ConnectionsPerUser; !c.sockets.add(s, limit) {
		return socketio.Welcome{}, &socketio.Refused{
			Message: fmt.Sprintf("Too many connections of this user: at most %d are allowed, close another window", limit),
		}
	}
	conn.SetData(s)
	return socketio.Welcome{SID: s.id, PID: s.pid}, nil
}

// Connected continues the rooms of a recovered connection, before any event of the
// client. The settings may have changed since Connect looked at them.
func (n namespace) Connected(conn *socketio.Socket) {
	s := socketOf(conn)
	s.expireAt(s.Principal().Expires)
	n.core.reviewSocket(s)
	n.core.continueRooms(s)
}

// Event handles a client event. Every one of them is authorised by the engine
// against the stored session (D-03, D-04).
func (n namespace) Event(conn *socketio.Socket, e socketio.Event) {
	s := socketOf(conn)
	var payload json.RawMessage
	if len(e.Args) > 0 && bytes.HasPrefix(e.Args[0], []byte("{")) {
		payload = e.Args[0]
	}
	n.dispatch(s, e.Name, payload)
	if e.Ack != nil {
		// Nobody asks for one (chat-run 1.1); one who does is not left waiting.
		_ = e.Ack()
	}
}

func (n namespace) dispatch(s *socket, event string, payload json.RawMessage) {
	handle := handlerOf(event)
	if handle == nil {
		return
	}
	isRun := event == chatrun.EventRun
	if s.Principal().Expired(now()) {
		if isRun {
			s.reply(chatrun.EventRunFailed, chatrun.RunRefused("", "", textExpired))
		}
		s.disconnect(socketio.ReasonCredentials)
		return
	}
	if payload == nil {
		if isRun {
			s.reply(chatrun.EventRunFailed, chatrun.RunRefused("", "", textNotObject))
		}
		return
	}
	if eng := n.core.engine(); eng != nil {
		// What was sent counts, also if the client is gone the moment after; the
		// engine bounds each event by itself.
		if isRun || event == chatrun.EventResume {
			defer s.awaitRoom(payload)()
		}
		handle(eng, n.core.life, s, payload)
	}
}

// handlerOf answers the engine's part for a client event, nil for events that are
// ignored: unknown ones, and answers to questions that this server does not ask.
func handlerOf(event string) func(*engine.Engine, context.Context, engine.Socket, json.RawMessage) {
	switch event {
	case chatrun.EventRun:
		return (*engine.Engine).Run
	case chatrun.EventResume:
		return (*engine.Engine).Resume
	case chatrun.EventAbort:
		return (*engine.Engine).Abort
	case chatrun.EventCancelQueuedRun:
		return (*engine.Engine).CancelQueued
	default:
		return nil
	}
}

// Ping implements socketio.PongHandler.
func (n namespace) Ping(conn *socketio.Socket) { socketOf(conn).pingSent() }

// Pong implements socketio.PongHandler.
func (n namespace) Pong(conn *socketio.Socket) { socketOf(conn).pongReceived() }

// Disconnected forgets the socket. Runs go on (CR-10); its record stays for the
// recovery time unless the client left by itself.
func (n namespace) Disconnected(conn *socketio.Socket, reason socketio.Reason) {
	s := socketOf(conn)
	s.retire(reason != socketio.ReasonClientNamespace)
	n.core.sockets.remove(s)
	if eng := n.core.engine(); eng != nil {
		eng.Leave(s)
	}
}

func socketOf(conn *socketio.Socket) *socket {
	s, _ := conn.Data().(*socket)
	return s
}

// connectRequest is the auth payload of a CONNECT packet.
type connectRequest struct{ token, pid, offset string }

// parseConnect reads what it can; a field of another type counts as absent.
func parseConnect(payload json.RawMessage) connectRequest {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return connectRequest{}
	}
	text := func(name string) (s string) {
		if json.Unmarshal(fields[name], &s) != nil {
			return ""
		}
		return s
	}
	return connectRequest{token: text("token"), pid: text("pid"), offset: text("offset")}
}

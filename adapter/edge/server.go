package edge

import (
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
	"github.com/hermes-edge/hermes-edge/adapter/chatrun"
	"github.com/hermes-edge/hermes-edge/adapter/metrics"
	"github.com/hermes-edge/hermes-edge/adapter/socketio"
)

// admission is what a connection keeps of its handshake request.
type admission struct {
	rules       auth.Authenticator // of the mount, with the delay of failed logins
	credentials auth.Credentials
	clientIP    string
}

func newServer(c *Core) *socketio.Server {
	s := socketio.NewServer(socketio.Options{Logger: c.log.Named("socketio")})
	s.Handle(chatrun.Namespace, namespace{c})
	return s
}

// serverOptions are the settings of the next handshakes.
func (c *Core) serverOptions(s Settings) socketio.Options {
	o := socketio.Options{
		PingInterval: s.Timeouts.PingInterval, PingTimeout: s.Timeouts.PingTimeout,
		ConnectTimeout: s.Timeouts.Connect, UpgradeTimeout: s.Timeouts.Upgrade,
		MaxPayload: s.Limits.MessageSize, SendBuffer: s.Limits.SendBuffer,
		EventRate: s.Limits.EventRate, MaxConnections: s.Limits.Connections,
		Logger: c.log.Named("socketio"), Observer: observer{c.deps.Metrics},
	}
	if s.Redis != nil {
		o.NewSID = c.newSID
	}
	return o
}

// ServeSocket serves one request below /socket.io/ that came through m. The caller
// has checked the Origin and set the answer headers that depend on it. A request of
// a connection that another node holds is served by that. A handshake while the core is not ready is answered 503 with Retry-After; connections that
// are open are served until they are closed.
func (c *Core) ServeSocket(w http.ResponseWriter, r *http.Request, m *Mount, req Request) {
	handshake := r.Method != http.MethodOptions && !r.URL.Query().Has("sid")
	if handshake && !c.ready() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the server is "+c.Status(), http.StatusServiceUnavailable)
		return
	}
	admit := socketio.Admission{Identity: identityOf(req.Credentials), RawConn: req.RawConn}
	if !handshake && c.forward(w, r, admit.Identity) {
		return
	}
	if handshake {
		admit.Meta = c.admission(r, m, req)
	}
	c.io.Serve(w, r, admit)
}

// admission copies what it keeps, so that the request is not kept alive by it.
func (c *Core) admission(r *http.Request, m *Mount, req Request) *admission {
	cred := auth.Credentials{
		Token:   strings.Clone(req.Credentials.Token),
		Profile: strings.Clone(strings.TrimSpace(r.URL.Query().Get("profile"))),
	}
	if len(req.Credentials.Identity) > 0 {
		cred.Identity = make(map[string]string, len(req.Credentials.Identity))
		for name, value := range req.Credentials.Identity {
			cred.Identity[name] = strings.Clone(value)
		}
	}
	return &admission{rules: c.rules(m), credentials: cred, clientIP: strings.Clone(req.ClientIP)}
}

// identityOf is what a session id is bound to: a poll of somebody whom the web
// server knows by another name is forbidden. Tokens come with CONNECT and take no
// part.
func identityOf(cred auth.Credentials) string {
	if len(cred.Identity) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(cred.Identity)) {
		h.Write([]byte(name + "\x00" + cred.Identity[name] + "\x00"))
	}
	return base64.RawStdEncoding.EncodeToString(h.Sum(nil)[:16])
}

// observer counts what the Socket.IO server reports.
type observer struct{ m *metrics.Metrics }

func (o observer) ConnectionOpened(t socketio.Transport) { o.m.ConnectionOpened(t.String()) }

func (o observer) ConnectionUpgraded() {
	o.m.ConnectionUpgraded(socketio.Polling.String(), socketio.WebSocket.String())
}

func (o observer) ConnectionClosed(t socketio.Transport, r socketio.Reason) {
	o.m.ConnectionClosed(t.String(), r.String())
}

func (o observer) PacketsReceived(packets, bytes int) { o.m.PacketsReceived(packets, bytes) }

func (o observer) PacketsSent(packets, bytes int) { o.m.PacketsSent(packets, bytes) }

func (o observer) SlowConsumer(a socketio.SlowAction) { o.m.SlowConsumer(string(a)) }

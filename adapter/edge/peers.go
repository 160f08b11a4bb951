package edge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/peer"
	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
	"github.com/hermes-edge/hermes-edge/adapter/store"
)

const (
	// peerSecret is the name of what nodes show each other among their secrets.
	peerSecret    = "peer"
	peerRetry     = time.Second
	resolveWait   = time.Second
	peerCloseWait = time.Second
	maxNodeName   = 64
	// sidSeparator stands between node and random part of an Engine.IO session id;
	// neither has one.
	sidSeparator = "."
)

// peers is how this node and others serve each other's polling clients: every
// request of such a client may come to another node.
type peers struct {
	secret    string                         // of all nodes; set once, before forwarder
	forwarder atomic.Pointer[peer.Forwarder] // nil until the store has been reached
	changed   chan struct{}                  // asks to look at the settings again
	announce  chan struct{}                  // asks to tell others of this node now
}

func (p *peers) init() {
	p.changed, p.announce = make(chan struct{}, 1), make(chan struct{}, 1)
}

func (p *peers) reconsider() { wake(p.changed) }

// wake asks a goroutine to look; it need not be asked twice.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// newSID makes an Engine.IO session id that names its node.
func (c *Core) newSID() string { return c.node + sidSeparator + engineio.RandomID() }

// foreignNode answers the node that an Engine.IO session id names if it is another
// one. Ids come from outside.
func (c *Core) foreignNode(sid string) (node string, foreign bool) {
	node, _, ok := strings.Cut(sid, sidSeparator)
	if !ok || node == c.node || node == "" || len(node) > maxNodeName || strings.ContainsFunc(node, notInName) {
		return "", false
	}
	return node, true
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// forward has the node of an Engine.IO session serve a request of it, and reports
// whether that was this one's business: everything else is served here. A request
// that comes from another node never gets here, so none is forwarded twice.
func (c *Core) forward(w http.ResponseWriter, r *http.Request, identity string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return false
	}
	q := r.URL.Query()
	node, foreign := c.foreignNode(q.Get("sid"))
	f := c.peers.forwarder.Load()
	if !foreign || f == nil {
		return false // an unknown session is refused here
	}
	if c.exit.begun() && isPoll(r, q) {
		// Nothing must be waited for here any more; the next poll finds another node.
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte(noopPacket))
		return true
	}
	f.Forward(w, r, node, identity)
	return true
}

const noopPacket = "6"

func isPoll(r *http.Request, q url.Values) bool {
	return r.Method == http.MethodGet && q.Get("transport") == "polling"
}

// openPeers opens the ways to and from other nodes, before the first client may
// come: its next request may come to one of them. The turn is held.
func (c *Core) openPeers(ctx context.Context) error {
	if c.shared == nil || c.peers.secret != "" {
		return nil
	}
	secret, err := c.shared.Secret(ctx, peerSecret, randomName(32))
	if err != nil {
		return fmt.Errorf("get the secret of the nodes: %w", err)
	}
	c.peers.secret = secret
	c.peers.forwarder.Store(peer.NewForwarder(peer.Options{
		Secret: []byte(secret), Logger: c.log.Named("peer"),
		Lookup: lookupIn(c.shared), Limits: c.peerLimits, Gone: sessionUnknown, TooLarge: payloadTooLarge,
	}))
	l, shared := &peerListener{core: c, secret: []byte(secret)}, c.shared
	failed := l.follow(c.gen.Load())
	if !c.work.run(func() { c.servePeers(shared, l, failed) }) {
		l.close()
	}
	return nil
}

// servePeers keeps those ways open until the core is gone. The sockets that are
// served through them have been closed by then.
func (c *Core) servePeers(shared store.Secrets, l *peerListener, failed error) {
	f := c.peers.forwarder.Load()
	defer f.Close()
	defer context.AfterFunc(c.exit.starting, f.EndPolls)()
	defer l.close()
	keep := time.NewTicker(tokenInterval)
	defer keep.Stop()
	for {
		var again <-chan time.Time
		if failed != nil {
			l.report(failed)
			again = time.After(peerRetry)
		}
		select {
		case <-c.peers.changed:
		case <-again:
		case <-keep.C:
			// A store that has lost the secret gets it back, before a new node makes
			// another one; an error shows elsewhere.
			_, _ = shared.Secret(c.life, peerSecret, c.peers.secret)
		case <-c.life.Done():
			return
		}
		before := c.endpoint.Load()
		failed = l.follow(c.gen.Load())
		if c.endpoint.Load() != before {
			wake(c.peers.announce) // clients do not wait
		}
	}
}

func lookupIn(nodes store.Nodes) peer.LookupFunc {
	return func(ctx context.Context, name string) (peer.Node, bool, error) {
		n, ok, err := nodes.LookupNode(ctx, name)
		return peer.Node{Name: n.Name, Address: n.Address, Fingerprint: n.Fingerprint}, ok, err
	}
}

// peerLimits bound what is forwarded: a client's message, and how long a node may
// say nothing to a client.
func (c *Core) peerLimits() (body int64, silence time.Duration) {
	s := c.gen.Load().settings
	return s.Limits.MessageSize, s.Timeouts.PingInterval + s.Timeouts.PingTimeout
}

// serveForwarded serves what another node has admitted. Only handshakes carry more
// than an identity, and those are never forwarded.
func (c *Core) serveForwarded(w http.ResponseWriter, r *http.Request, identity string) {
	if !r.URL.Query().Has("sid") {
		sessionUnknown(w)
		return
	}
	c.io.Serve(w, r, engineio.Admission{Identity: identity})
}

// sessionUnknown is what Engine.IO answers when a session is gone: the client
// connects anew and continues from the store.
func sessionUnknown(w http.ResponseWriter) {
	engineError(w, http.StatusBadRequest, `{"code":1,"message":"Session ID unknown"}`)
}

func payloadTooLarge(w http.ResponseWriter) {
	engineError(w, http.StatusRequestEntityTooLarge, `{"code":3,"message":"Payload too large"}`)
}

func engineError(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a client that is gone needs none
}

// peerListener is where other nodes reach this one. It belongs to one goroutine.
type peerListener struct {
	core     *Core
	secret   []byte
	open     *peer.Listener
	wanted   string // Advertise that it was opened for
	reported string // what the log said last
}

// follow makes the listener what the settings ask for.
func (l *peerListener) follow(g *generation) error {
	wanted := g.settings.Node.Advertise
	if l.open != nil && wanted == l.wanted {
		return nil
	}
	l.close()
	l.wanted = wanted
	if wanted == AdvertiseOff {
		return nil
	}
	ctx, cancel := context.WithTimeout(l.core.life, resolveWait)
	defer cancel()
	addresses, err := listenAddresses(ctx, wanted, g.settings.Redis.Addrs)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		l.open, err = peer.Listen(ctx, peer.ListenOptions{
			Node: l.core.node, Secret: l.secret, Address: address,
			Handler: l.core.serveForwarded, Logger: l.core.log.Named("peer"),
		})
		if err == nil {
			break
		}
	}
	if err != nil {
		l.open = nil
		return err
	}
	at := &endpoint{address: wanted, fingerprint: l.open.Fingerprint()}
	if wanted == "" {
		at.address = l.open.Address()
	}
	l.reported = ""
	l.core.endpoint.Store(at)
	l.core.log.Info("other nodes reach this one", zap.String("node", l.core.node), zap.String("address", at.address))
	return nil
}

func (l *peerListener) close() {
	if l.open == nil {
		return
	}
	l.core.endpoint.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), peerCloseWait)
	defer cancel()
	if err := l.open.Close(ctx); err != nil {
		l.core.log.Debug("requests of other nodes were cut off", zap.Error(err))
	}
	l.open = nil
}

func (l *peerListener) report(err error) {
	if text := err.Error(); text != l.reported && l.core.life.Err() == nil {
		l.reported = text
		l.core.log.Error("other nodes cannot reach this one, trying again; until then long-polling works only with "+
			"sticky sessions. Set node { advertise host:port } to a port that is free here", zap.Error(err))
	}
}

// listenAddresses are where to listen, tried in order. A configured address that is
// none of this host's, as behind a translation of addresses, stands for its port on
// all of them.
func listenAddresses(ctx context.Context, advertise string, redis []string) ([]string, error) {
	if advertise != "" {
		_, port, err := net.SplitHostPort(advertise)
		if err != nil {
			return nil, fmt.Errorf("advertise: %w", err)
		}
		return []string{advertise, net.JoinHostPort("", port)}, nil
	}
	host, err := addressTowards(ctx, redis)
	if err != nil {
		return nil, err
	}
	return []string{net.JoinHostPort(host, "0")}, nil
}

// addressTowards finds the local address that Redis is reached from: other nodes
// reach the same Redis, so most likely they reach it, too. Nothing is sent.
func addressTowards(ctx context.Context, redis []string) (string, error) {
	const loopback = "127.0.0.1"
	var failed error
	for _, address := range redis {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return loopback, nil // a Unix socket
		}
		conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		local, _, err := net.SplitHostPort(conn.LocalAddr().String())
		_ = conn.Close()
		if err == nil {
			return local, nil
		}
	}
	return "", fmt.Errorf("find the address towards redis: %w", failed)
}

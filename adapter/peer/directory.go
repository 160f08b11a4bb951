package peer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// Bounds of what is kept of other nodes.
const (
	recordAge     = time.Second // after which a record is read again
	lookupTimeout = time.Second
	lookupPause   = 50 * time.Millisecond // before a failed look-up is tried again
	maxRecords    = 512
	// Names come from outside: those that nobody has heard of may not load the store.
	unknownRate  = 50 // look-ups a second
	unknownBurst = 200
	dialTimeout  = 2 * time.Second
	dialPause    = 500 * time.Millisecond // after a failed dial nobody waits for the next
	idleTimeout  = time.Minute
	maxIdle      = 64 // idle connections per node
	bufferSize   = 4 << 10
)

// Node is where a node is reached.
type Node struct {
	Name        string
	Address     string // host:port; empty: it is not
	Fingerprint string // SHA-256 of its certificate, hexadecimal
}

// LookupFunc finds a living node; false if there is none of that name.
type LookupFunc func(ctx context.Context, name string) (Node, bool, error)

// directory keeps the records of other nodes for a moment, and for as long as they
// cannot be read again.
type directory struct {
	secret []byte
	lookup LookupFunc
	log    *zap.Logger
	fresh  *rate.Limiter
	flight singleflight.Group

	mu      sync.Mutex
	records map[string]record
	closed  bool
}

type record struct {
	route *route // nil: there is no such node, or it is not reached
	at    time.Time
}

// route is the way to one node.
type route struct {
	Node
	proof     string
	transport *http.Transport
	failed    atomic.Int64 // when a dial failed, in Unix nanoseconds
}

func (d *directory) init(secret []byte, lookup LookupFunc, log *zap.Logger) {
	d.secret, d.lookup, d.log = secret, lookup, log
	d.fresh = rate.NewLimiter(unknownRate, unknownBurst)
	d.records = make(map[string]record)
}

// find answers the way to a node, nil if there is none.
func (d *directory) find(ctx context.Context, name string) *route {
	d.mu.Lock()
	known, ok := d.records[name]
	d.mu.Unlock()
	if ok && time.Since(known.at) < recordAge {
		return known.route
	}
	if known.route == nil && !d.fresh.Allow() {
		return nil
	}
	found, _, _ := d.flight.Do(name, func() (any, error) { return d.read(ctx, name), nil })
	return found.(*route)
}

// read looks a node up. What was known stays if the answer is not to be had.
func (d *directory) read(ctx context.Context, name string) *route {
	// Others wait for this one, whose own request may end meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	n, ok, err := d.lookup(ctx, name)
	for err != nil && !d.knows(name) && sleep(ctx, lookupPause) {
		n, ok, err = d.lookup(ctx, name)
	}
	if err != nil {
		d.log.Debug("node not looked up", zap.String("node", name), zap.Error(err))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.records[name].route
	var now *route
	switch {
	case d.closed:
		return nil
	case err != nil && before == nil:
		return nil // asked again by the next request
	case err != nil:
		now = before
	case !ok || n.Address == "":
	case before != nil && before.Node == n:
		now = before
	default:
		now = newRoute(n, proof(d.secret, name, n.Fingerprint))
	}
	if before != nil && before != now {
		before.transport.CloseIdleConnections()
	}
	d.keepLocked(name, record{now, time.Now()})
	return now
}

func (d *directory) knows(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records[name].route != nil
}

// sleep waits; false: ctx ended first.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// keepLocked keeps a record instead of the oldest one if there are too many.
func (d *directory) keepLocked(name string, r record) {
	if _, known := d.records[name]; !known && len(d.records) >= maxRecords {
		oldest := ""
		for n, o := range d.records {
			if oldest == "" || o.at.Before(d.records[oldest].at) {
				oldest = n
			}
		}
		if old := d.records[oldest].route; old != nil {
			old.transport.CloseIdleConnections()
		}
		delete(d.records, oldest)
	}
	d.records[name] = r
}

func (d *directory) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, r := range d.records {
		if r.route != nil {
			r.route.transport.CloseIdleConnections()
		}
	}
	clear(d.records)
}

func newRoute(n Node, proof string) *route {
	r := &route{Node: n, proof: proof}
	r.transport = &http.Transport{
		DialTLSContext:      func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTimeout,
		ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
	}
	return r
}

var errDialPause = errors.New("it could not be reached a moment ago")

// dial connects to the node. A dead host is noticed by TCP, since a poll may be
// silent for long.
func (r *route) dial(ctx context.Context) (net.Conn, error) {
	if failed := r.failed.Load(); failed != 0 && time.Since(time.Unix(0, failed)) < dialPause {
		return nil, errDialPause
	}
	// The handshake belongs to the connection, which other requests may use.
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	d := tlsDialer(r.Fingerprint)
	conn, err := d.DialContext(ctx, "tcp", r.Address)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			r.failed.Store(time.Now().UnixNano())
		}
		return nil, err
	}
	r.failed.Store(0)
	return conn, nil
}

package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	upgradeTimeout = 10 * time.Second
	// lingerTimeout is how long one side may take to end after the other has.
	lingerTimeout = time.Second
)

func upgrades(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Header.Get("Upgrade") != "" &&
		strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// upgrade forwards a request that wants another protocol, on a connection of its
// own. An error means that nothing has been answered yet. Leave is called once, when
// all has ended.
func (f *Forwarder) upgrade(w http.ResponseWriter, r *http.Request, way *route, identity string, leave func()) error {
	ctx, cancel := context.WithTimeout(r.Context(), upgradeTimeout)
	defer cancel()
	defer context.AfterFunc(f.ended, cancel)()
	far, in, answer, err := ask(ctx, r, way, identity)
	if err != nil {
		leave()
		return err
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		defer leave()
		defer func() { _ = far.Close() }()
		return relay(w, answer)
	}
	near, rw, err := takeOver(w, answer)
	if err != nil { // the client is gone
		_ = far.Close()
		leave()
		return nil
	}
	_ = far.SetDeadline(time.Time{})
	_, silence := f.opts.Limits()
	p := &pair{near: near, far: far, silence: silence, leave: leave}
	p.unlink = context.AfterFunc(f.ended, p.cut)
	p.running.Store(2)
	f.group.Add(2)
	go func() { defer f.group.Done(); p.toFar(rw.Reader) }()
	go func() { defer f.group.Done(); p.toNear(in) }()
	return nil
}

// ask sends the request and reads the head of the answer.
func ask(ctx context.Context, r *http.Request, way *route, identity string) (net.Conn, *bufio.Reader, *http.Response, error) {
	far, err := way.dial(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = far.SetDeadline(time.Unix(1, 0)) })
	out := newRequest(r, way, identity)
	out.Header.Set("Connection", "Upgrade")
	out.Header.Set("Upgrade", r.Header.Get("Upgrade"))
	in := bufio.NewReaderSize(far, bufferSize)
	var answer *http.Response
	if err = out.Write(far); err == nil {
		answer, err = http.ReadResponse(in, out)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = far.Close()
		return nil, nil, nil, fmt.Errorf("ask for the upgrade: %w", err)
	}
	return far, in, answer, nil
}

// takeOver answers the client as the node did and takes the connection.
func takeOver(w http.ResponseWriter, answer *http.Response) (net.Conn, *bufio.ReadWriter, error) {
	copyHeader(w.Header(), answer.Header)
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", answer.Header.Get("Upgrade"))
	w.WriteHeader(http.StatusSwitchingProtocols)
	near, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_ = near.SetDeadline(time.Now().Add(writeTimeout))
	if err := rw.Flush(); err != nil { // the answer may still be there
		_ = near.Close()
		return nil, nil, err
	}
	_ = near.SetDeadline(time.Time{})
	return near, rw, nil
}

// pair is an upgraded connection: the client's side and the node's. They end
// together.
type pair struct {
	near, far net.Conn
	silence   time.Duration // of the node, after which it is gone
	leave     func()
	unlink    func() bool
	running   atomic.Int32
}

// toFar passes on what the client sends. It may be silent for as long as it likes:
// the node decides.
func (p *pair) toFar(buffered *bufio.Reader) {
	defer p.ended(p.far)
	if waiting := buffered.Buffered(); waiting > 0 {
		early, _ := buffered.Peek(waiting)
		if write(p.far, early) != nil {
			return
		}
	}
	p.pump(p.far, p.near, p.near, 0)
}

// toNear passes on what the node sends.
func (p *pair) toNear(in *bufio.Reader) {
	defer p.ended(p.near)
	p.pump(p.near, in, p.far, p.silence)
}

// pump copies until one side ends; source is the connection below from.
func (p *pair) pump(to net.Conn, from io.Reader, source net.Conn, silence time.Duration) {
	buffer := make([]byte, bufferSize)
	for {
		limit := silence
		if p.running.Load() < 2 {
			limit = lingerTimeout
		}
		if limit > 0 && source.SetReadDeadline(time.Now().Add(limit)) != nil {
			return
		}
		n, err := from.Read(buffer)
		if n > 0 && write(to, buffer[:n]) != nil || err != nil {
			return
		}
	}
}

func write(to net.Conn, data []byte) error {
	if err := to.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := to.Write(data)
	return err
}

// ended is called by each direction. The first one lets the receiver read what is
// under way, the second cleans up.
func (p *pair) ended(receiver net.Conn) {
	if p.running.Add(-1) == 0 {
		p.unlink()
		p.cut()
		p.leave()
		return
	}
	closer, ok := receiver.(interface{ CloseWrite() error })
	if !ok || closer.CloseWrite() != nil {
		p.cut()
		return
	}
	_ = receiver.SetReadDeadline(time.Now().Add(lingerTimeout))
}

// cut ends both sides at once.
func (p *pair) cut() {
	_ = p.near.Close()
	_ = p.far.Close()
}

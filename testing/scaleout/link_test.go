//go:build unix

package scaleout

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link is a TCP connection between a node and its Redis that can be cut.
type link struct {
	addr string

	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newLink(t testing.TB, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{addr: listener.Addr().String(), target: target, listener: listener, conns: make(map[net.Conn]bool)}
	l.work.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.setCut(true)
		l.work.Wait()
	})
	return l
}

// setCut breaks all connections and refuses new ones, or lets them through again.
func (l *link) setCut(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = on
	if on {
		for conn := range l.conns {
			_ = conn.Close()
		}
	}
}

func (l *link) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		if !l.keep(near) {
			continue
		}
		l.work.Go(func() { l.carry(near) })
	}
}

// keep notes a connection; false if the link is cut, then it is closed.
func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_ = conn.Close()
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *link) drop(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = conn.Close()
	delete(l.conns, conn)
}

func (l *link) carry(near net.Conn) {
	defer l.drop(near)
	far, err := net.Dial("tcp", l.target)
	if err != nil || !l.keep(far) {
		return
	}
	defer l.drop(far)
	var both sync.WaitGroup
	copyTo := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may break; then both do
		_ = to.Close()
	}
	both.Go(func() { copyTo(far, near) })
	both.Go(func() { copyTo(near, far) })
	both.Wait()
}

//go:build unix

package redisstore

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/testing/redisserver"
)

// listener collects the hints of one subscription.
type listener struct {
	t     *testing.T
	hints chan store.Hint
}

func listen(t *testing.T, st *Store, sid string) (*listener, store.Subscription) {
	t.Helper()
	l := &listener{t, make(chan store.Hint, 1024)}
	sub, err := st.Subscribe(t.Context(), sid, func(h store.Hint) { l.hints <- h })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sub.Close)
	return l, sub
}

// until waits for a hint of a kind.
func (l *listener) until(what string, is func(store.Hint) bool) store.Hint {
	l.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case h := <-l.hints:
			if is(h) {
				return h
			}
		case <-limit:
			l.t.Fatalf("no hint: %s", what)
		}
	}
}

func established(h store.Hint) bool { return h.Established }
func grown(h store.Hint) bool       { return !h.Established }

// TestHintsCrossNodes: a node hears of what another one writes, and every
// listener of a channel is told that it is established.
func TestHintsCrossNodes(t *testing.T) {
	server := redisserver.Start(t)
	a, b := open(t, Options{Addrs: []string{server.Addr}}), open(t, Options{Addrs: []string{server.Addr}, Node: "n2"})
	first, _ := listen(t, b, "s")
	second, sub := listen(t, b, "s")
	first.until("first", established)
	second.until("second", established)
	res := submitted(t, a, offer("s", "q"), store.Started)
	for _, l := range []*listener{first, second} {
		if h := l.until("submit", grown); h.Head != res.Last || h.Incarnation != res.Incarnation {
			t.Fatalf("%+v, want %+v", h, res)
		}
	}
	sub.Close()
	appended(t, a, deltas("s", "run-q", 1, 1), store.OK)
	first.until("append", grown)
	if len(second.hints) > 0 {
		t.Fatal("a hint after Close")
	}
}

// TestSubscribeAgain: a channel that is left and wanted again, over and over,
// ends up subscribed.
func TestSubscribeAgain(t *testing.T) {
	server := redisserver.Start(t)
	st := open(t, Options{Addrs: []string{server.Addr}})
	submitted(t, st, offer("s", "q"), store.Started)
	for seq := range int64(50) {
		l, sub := listen(t, st, "s")
		l.until("established", established)
		appended(t, st, deltas("s", "run-q", seq+1, 1), store.OK)
		l.until("append", grown)
		sub.Close()
	}
	st.hub.mu.Lock()
	defer st.hub.mu.Unlock()
	if len(st.hub.topics) != 1 || st.hub.topics[st.nodeChannel()] == nil {
		t.Fatal("topics without listeners")
	}
}

// TestEstablishedAgain: after the connection was lost, and after the server was,
// listeners are told to look at the log.
func TestEstablishedAgain(t *testing.T) {
	server := redisserver.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st := nervous(t, server.Addr)
	submitted(t, st, offer("s", "q"), store.Started)
	l, _ := listen(t, st, "s")
	l.until("at first", established)
	if n := server.Do("CLIENT", "KILL", "TYPE", "pubsub"); n != "1" {
		t.Fatalf("killed %s subscription connections, want one a node", n)
	}
	l.until("after the connection was killed", established)
	appended(t, st, deltas("s", "run-q", 1, 1), store.OK)
	l.until("append", grown)
	server.Kill()
	server.Restart()
	l.until("after the server was killed", established)
	answers(t, st)
	appended(t, st, deltas("s", "run-q", 2, 1), store.OK)
	l.until("append", grown)
}

// deaf is a proxy that can stop handing on what the server says on connections
// that subscribe, while they look healthy.
type deaf struct {
	addr  string
	muted atomic.Int64 // connections accepted up to this number
	work  sync.WaitGroup
}

func startDeaf(t *testing.T, server string) (d *deaf, accepted func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d = &deaf{addr: l.Addr().String()}
	var count atomic.Int64
	var mu sync.Mutex
	var open []net.Conn
	d.work.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			d.pass(count.Add(1), in, out)
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
		d.work.Wait()
	})
	return d, count.Load
}

func (d *deaf) pass(n int64, in, out net.Conn) {
	var subscribes atomic.Bool
	d.work.Go(func() {
		defer out.Close()
		copyBytes(out, in, func(b []byte) bool {
			if bytes.Contains(b, []byte("subscribe")) {
				subscribes.Store(true)
			}
			return true
		})
	})
	d.work.Go(func() {
		defer in.Close()
		copyBytes(in, out, func([]byte) bool { return !subscribes.Load() || n > d.muted.Load() })
	})
}

func copyBytes(to io.Writer, from io.Reader, hand func([]byte) bool) {
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if n > 0 && hand(b[:n]) {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestSilentSubscription: a connection on which nothing arrives, not even this
// node's own probe, is made anew; one that is merely idle is not.
func TestSilentSubscription(t *testing.T) {
	server := redisserver.Start(t)
	d, accepted := startDeaf(t, server.Addr)
	st := open(t, Options{Addrs: []string{d.addr}, probeInterval: 200 * time.Millisecond})
	l, _ := listen(t, st, "s")
	l.until("at first", established)
	probed := server.Do("PUBSUB", "NUMSUB", st.nodeChannel())
	if probed != "["+st.nodeChannel()+" 1]" {
		t.Fatalf("the node's own channel: %s", probed)
	}
	echo := redisEcho(t, server, st.nodeChannel())
	for range 2*maxSilences + 1 {
		echo()
	}
	if len(l.hints) > 0 {
		t.Fatal("an idle connection was made anew")
	}
	d.muted.Store(accepted())
	l.until("after the silence", established)
	submitted(t, st, offer("s", "q"), store.Started)
	l.until("submit", grown)
}

// redisEcho waits for the next message on a channel.
func redisEcho(t *testing.T, server *redisserver.Server, channel string) (next func()) {
	t.Helper()
	c := server.Client()
	ps := c.Subscribe(t.Context(), channel)
	t.Cleanup(func() {
		ps.Close()
		c.Close()
	})
	if _, err := ps.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := ps.ReceiveMessage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHintsOfMovedSlot: hints are heard by a node of a cluster on the shard that has
// the session's slot, also after the slot has moved, and are not sent to the other
// shards.
func TestHintsOfMovedSlot(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	a, b := openCluster(t, nodes, Options{}), openCluster(t, nodes, Options{Node: "n2"})
	submitted(t, a, offer("s", "q"), store.Started)
	listeners := make([]*listener, 0, 20)
	for _, sid := range append([]string{"s"}, sids(19)...) {
		l, _ := listen(t, b, sid)
		listeners = append(listeners, l)
	}
	l := listeners[0]
	l.until("at first", established)
	appended(t, a, deltas("s", "run-q", 1, 1), store.OK)
	l.until("append", grown)
	i, slot := serving(t, a, nodes, "s")
	for j, n := range nodes {
		want := "[" + a.channel("s") + " 0]"
		if j == i {
			want = "[" + a.channel("s") + " 1]"
		}
		if got := n.Do("PUBSUB", "SHARDNUMSUB", a.channel("s")); got != want {
			t.Fatalf("node %d: %s", j, got)
		}
	}
	moveSlot(t, nodes, i, (i+1)%3, slot)
	l.until("after the move", established)
	eventually(t, "the client learns of it", func() bool { return wrote(t, a, deltas("s", "run-q", 2, 1)) })
	l.until("append", grown)
}

// TestWireWithoutChannels: a connection to a shard ends when it is not needed.
func TestWireWithoutChannels(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3)
	st := openCluster(t, nodes, Options{probeInterval: 50 * time.Millisecond})
	l, sub := listen(t, st, "s")
	l.until("at first", established)
	wires := func() int {
		st.hub.mu.Lock()
		defer st.hub.mu.Unlock()
		return len(st.hub.wires)
	}
	if n := wires(); n != 2 {
		t.Fatalf("%d connections", n)
	}
	sub.Close()
	eventually(t, "the connection ends", func() bool { return wires() == 1 })
	l, _ = listen(t, st, "s")
	l.until("again", established)
}

// TestHintsOfOldCluster: a cluster before version 7 has no channels of shards; its
// hints go to all.
func TestHintsOfOldCluster(t *testing.T) {
	nodes := redisserver.StartCluster(t, 3, "--rename-command", "SSUBSCRIBE", "", "--rename-command", "SPUBLISH", "")
	a, b := openCluster(t, nodes, Options{}), openCluster(t, nodes, Options{Node: "n2"})
	for i := range 5 {
		sid := fmt.Sprint("s", i)
		l, _ := listen(t, b, sid)
		l.until("at first", established)
		submitted(t, a, offer(sid, "q"), store.Started)
		l.until("submit", grown)
		appended(t, a, deltas(sid, "run-q", 1, 1), store.OK)
		l.until("append", grown)
	}
}

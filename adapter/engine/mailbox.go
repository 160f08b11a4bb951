package engine

import "sync"

// mailboxLimit bounds what waits for one session. Whoever does runs his function
// himself if nobody else is at it, so only hints and drained sockets ever wait.
const mailboxLimit = 4096

// mailbox executes functions one after the other. It owns no goroutine while
// nothing waits: a caller of do lends his own, post starts one that ends when the
// box is empty.
type mailbox struct {
	mu    sync.Mutex
	queue []func()
	busy  bool
}

// post queues f without waiting. It answers false if the box is full.
func (m *mailbox) post(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) >= mailboxLimit {
		return false
	}
	m.queue = append(m.queue, f)
	if !m.busy {
		m.busy = true
		go m.drain()
	}
	return true
}

// do executes f in its turn and returns when it is done. It must not be called
// from inside the box.
func (m *mailbox) do(f func()) {
	m.mu.Lock()
	if !m.busy {
		m.busy = true
		m.mu.Unlock()
		f()
		m.pass()
		return
	}
	done := make(chan struct{})
	m.queue = append(m.queue, func() {
		defer close(done)
		f()
	})
	m.mu.Unlock()
	<-done
}

// pass hands the box on after a caller's own function: what waits goes to a
// goroutine, so that nobody works for others for long.
func (m *mailbox) pass() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queue) == 0 {
		m.busy = false
		return
	}
	go m.drain()
}

func (m *mailbox) drain() {
	for {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.queue = nil
			m.busy = false
			m.mu.Unlock()
			return
		}
		f := m.queue[0]
		m.queue = m.queue[1:]
		m.mu.Unlock()
		f()
	}
}

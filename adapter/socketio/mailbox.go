package socketio

import "sync"

// What an inbound item is.
const (
	kindPacket = iota
	kindPong
	kindEnd
)

// inbound is something that a namespace has to handle, in order.
type inbound struct {
	kind        uint8
	text        []byte // the whole text, for relayed namespaces
	head        header
	attachments [][]byte
}

func (p *inbound) size() int {
	n := len(p.text)
	for _, a := range p.attachments {
		n += len(a)
	}
	return n
}

// Bounds of what waits to be handled; one packet always fits.
const (
	mailboxItems = 64
	mailboxBytes = 1 << 20
)

// mailbox is the queue between the reading goroutine and the worker of a
// namespace. The worker exists only while the queue is not empty.
type mailbox struct {
	mu      sync.Mutex
	items   []inbound
	bytes   int
	running bool
	space   chan struct{} // closed when there is room again
}

// put queues p. start tells the caller to start the worker. If the mailbox is
// full it gives back a channel to wait on; force puts regardless.
func (m *mailbox) put(p inbound, force bool) (start bool, full <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !force && len(m.items) > 0 && (len(m.items) >= mailboxItems || m.bytes+p.size() > mailboxBytes) {
		if m.space == nil {
			m.space = make(chan struct{})
		}
		return false, m.space
	}
	m.items = append(m.items, p)
	m.bytes += p.size()
	start = !m.running
	m.running = true
	return start, nil
}

// take gives the worker all that waits; with nothing, the worker must end.
func (m *mailbox) take() []inbound {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items, m.bytes = nil, 0
	if len(items) == 0 {
		m.running = false
	}
	if m.space != nil {
		close(m.space)
		m.space = nil
	}
	return items
}

// post puts a packet into a mailbox and waits while it is full. Only the
// reading goroutine posts.
func (c *Conn) post(m *mailbox, p inbound, work func()) {
	for {
		start, full := m.put(p, false)
		if full == nil {
			if start {
				c.startWorker(work)
			}
			return
		}
		if !c.wait(nil, full) {
			c.engine.Close(ReasonShutdown) // already closed, or held up while the process exits
			return
		}
	}
}

// force puts an item that cannot wait.
func (c *Conn) force(m *mailbox, p inbound, work func()) {
	if start, _ := m.put(p, true); start {
		c.startWorker(work)
	}
}

func (c *Conn) startWorker(work func()) {
	c.srv.workers.add()
	go work()
}

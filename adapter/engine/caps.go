package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// What happens to work whose executor class this node does not have (contract 5.6.6).
const (
	unfitLook  = time.Second      // it is offered again after this time
	unfitFor   = 10 * time.Second // nobody has taken it: it fails
	unfitLimit = 4096             // sessions remembered
)

const textUnfit = "No server is able to carry this message out at the moment; send it again later"

// caps answers the executor classes that this node can carry now.
func (e *Engine) caps() []string {
	caps := []string{}
	for _, profile := range e.cfg.Profiles() {
		if class, _, err := e.cfg.Executors(profile); err == nil && !slices.Contains(caps, class) {
			caps = append(caps, class)
		}
	}
	return caps
}

// pops answers what may begin behind a run of a class.
func (e *Engine) pops(class string) []string {
	if !e.lossy() {
		return []string{class}
	}
	return e.caps()
}

// claims answers what may be taken over: anything, where no other node could.
func (e *Engine) claims() []string {
	if !e.lossy() {
		return nil
	}
	return e.caps()
}

// misfits remembers since when sessions have waited for a node that can carry them.
type misfits struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// met notes another look at such a session and reports whether its time is over.
func (m *misfits) met(sid string) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, ok := m.since[sid]
	if ok {
		return time.Since(since) >= unfitFor
	}
	if m.since == nil || len(m.since) >= unfitLimit {
		m.since = map[string]time.Time{}
	}
	m.since[sid] = time.Now()
	return false
}

func (m *misfits) clear(sid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.since, sid)
}

// misfit offers a session that this node cannot carry to others, and fails its work
// if nobody takes it.
func (s *session) misfit(ctx context.Context, class string) error {
	e := s.e
	if !e.misfits.met(s.sid) {
		e.notify(ctx, s.sid, class)
		return nil
	}
	e.misfits.clear(s.sid)
	token := e.newToken()
	res, err := e.cfg.Store.TakeOver(ctx, store.TakeOverArgs{SID: s.sid, Token: token, Node: e.cfg.Node, TTL: store.LeaseTTL})
	if err != nil || res.Code != store.Resumed && res.Code != store.Next {
		return err
	}
	s.logger().Warn("no node can carry this run", zap.String("class", class))
	r := s.taken(res, token)
	if res.Code == store.Next || res.Rerun {
		r.startFailed(res.Item, textUnfit)
	} else {
		r.pickUpFailed(res, textUnfit)
	}
	return nil
}

// notify tells another node of a session that needs one.
func (e *Engine) notify(ctx context.Context, sid, class string) {
	if e.cfg.Notify != nil {
		e.cfg.Notify(ctx, store.Notice{Kind: store.NoticeWork, Subject: sid}, class)
	}
}

// Attend looks after a session that another node has spoken of: it is taken over if
// it needs a node and this one can carry it.
func (e *Engine) Attend(ctx context.Context, sid string) {
	if !e.mayTakeOver() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s := e.acquire(sid)
	defer e.release(s)
	if err := s.takeOver(ctx); err != nil {
		e.log.Debug("session spoken of not attended; the sweep finds it", zap.String("session", sid), zap.Error(err))
	}
}

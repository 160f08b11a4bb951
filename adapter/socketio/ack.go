package socketio

import (
	"context"
	"errors"
)

// ErrTooManyAcks: too many events of this socket wait for their answer.
var ErrTooManyAcks = errors.New("socket.io: too many events wait for an acknowledgement")

// EmitWithAck sends an event and waits for the client's answer, or until ctx
// or the socket ends.
func (s *Socket) EmitWithAck(ctx context.Context, event string, args ...any) (Reply, error) {
	id, ch, err := s.expect()
	if err != nil {
		return Reply{}, err
	}
	defer s.forgetAck(id)
	p, err := encode(typeEvent, s.ns.name, id, event, args)
	if err != nil {
		return Reply{}, err
	}
	if err := s.Send(p, ""); err != nil {
		return Reply{}, err
	}
	select {
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	case a, ok := <-ch:
		if !ok {
			return Reply{}, ErrClosed
		}
		values, err := splitArray(a.head.payload)
		if err != nil {
			s.conn.malformed(err)
			return Reply{}, err
		}
		return Reply{Args: values, Attachments: a.attachments}, nil
	}
}

func (s *Socket) expect() (int64, <-chan inbound, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.Load() != phaseConnected {
		return 0, nil, ErrClosed
	}
	if len(s.acks) >= s.conn.opts.MaxPendingAcks {
		return 0, nil, ErrTooManyAcks
	}
	if s.acks == nil {
		s.acks = make(map[int64]chan inbound)
	}
	s.lastID++
	ch := make(chan inbound, 1)
	s.acks[s.lastID] = ch
	return s.lastID, ch, nil
}

func (s *Socket) forgetAck(id int64) {
	s.mu.Lock()
	delete(s.acks, id)
	s.mu.Unlock()
}

// resolve hands an acknowledgement to who waits for it. One that nobody waits
// for is late or invented; both are ignored.
func (s *Socket) resolve(p inbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.acks[p.head.id]; ch != nil {
		delete(s.acks, p.head.id)
		ch <- p // has room for the one answer
	}
}

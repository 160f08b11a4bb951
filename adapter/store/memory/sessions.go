package memory

import (
	"context"
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Head implements store.Sessions.
func (st *Store) Head(ctx context.Context, sids ...string) ([]store.Session, error) {
	heads := make([]store.Session, len(sids))
	for i, sid := range sids {
		h, err := st.head(ctx, sid)
		if err != nil {
			return nil, fmt.Errorf("read session %q: %w", sid, err)
		}
		heads[i] = h
	}
	return heads, nil
}

// head reads one root, without loading a session that is not in memory.
func (st *Store) head(ctx context.Context, sid string) (store.Session, error) {
	if err := ctx.Err(); err != nil {
		return store.Session{}, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	now, forever := st.Now(), st.opts.SingleProcess
	s, err := st.lookup(sid, false)
	if err != nil {
		return store.Session{}, err
	}
	if s != nil {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if s.readied {
			return s.view(now, forever), nil
		}
	}
	if st.opts.Journal == nil {
		return store.Session{SID: sid}, nil
	}
	root, err := st.opts.Journal.Root(ctx, sid)
	if err != nil {
		return store.Session{}, loadError(err)
	}
	if root == nil || !root.exists() {
		return store.Session{SID: sid}, nil
	}
	stored := state{Root: *root}
	if stored.Boot != st.opts.Boot {
		stored.Head = store.Origin
	}
	return stored.session(sid, now, forever), nil
}

// Note implements store.Sessions.
func (st *Store) Note(ctx context.Context, a store.NoteArgs) (store.Code, error) {
	return st.code(ctx, a.SID, func(ch *change) store.Code {
		s := ch.s
		switch {
		case s.forbids(a.Guard):
			return store.Forbidden
		case s.exists() && s.Deleting:
			return store.Deleting
		case a.OpID != "" && s.ledger.get(opKey(a.OpID)) != nil:
			return store.Repeat
		case !s.exists() && a.Create == nil:
			return store.None
		}
		ch.level, ch.stamp = durable, a.Stamp
		if !s.exists() {
			ch.create(a.Guard, *a.Create)
		}
		for _, r := range a.Rows {
			ch.row(r, "", "")
		}
		ch.notes(a.Events)
		ch.next.Updated = ch.now
		if a.OpID != "" {
			ch.record(opKey(a.OpID), LedgerRecord{Code: store.OK})
		}
		return store.OK
	})
}

// notes writes entries of no run. With no run active nobody needs the log's past
// for a projection, so that it is trimmed here too.
func (ch *change) notes(events []store.NewEntry) {
	for _, e := range events {
		ch.entry(e, store.KindNote, "")
	}
	if ch.next.Run == "" {
		ch.keep(ch.s.Head.Offset)
	}
}

// Update implements store.Sessions.
func (st *Store) Update(ctx context.Context, a store.UpdateArgs) (store.Code, store.Session, error) {
	var after store.Session
	c, err := st.code(ctx, a.SID, func(ch *change) store.Code {
		after = ch.s.view(ch.now, st.opts.SingleProcess)
		c := ch.update(&a)
		if c == store.OK {
			after = ch.next.session(a.SID, ch.now, st.opts.SingleProcess)
		}
		if c == store.Forbidden {
			after = store.Session{SID: a.SID}
		}
		return c
	})
	if err != nil {
		return "", store.Session{}, err
	}
	return c, after, nil
}

func (ch *change) update(a *store.UpdateArgs) store.Code {
	s, n, p := ch.s, &ch.next, &a.Patch
	switch {
	case !s.exists():
		return store.None
	case s.forbids(a.Guard):
		return store.Forbidden
	case ch.st.late(ch.now, a.NotAfter):
		return store.Expired
	case a.ExpectAutoTitle && s.TitleSource == store.TitleManual,
		a.ExpectMetaVersion != 0 && a.ExpectMetaVersion != s.MetaVersion:
		return store.Changed
	}
	ch.level, ch.stamp = durable, a.Stamp
	set(&n.Title, p.Title)
	set(&n.TitleSource, p.TitleSource)
	set(&n.Model, p.Model)
	set(&n.Provider, p.Provider)
	set(&n.Archived, p.Archived)
	n.MetaVersion++
	ch.notes(a.Events)
	return store.OK
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Delete implements store.Sessions.
func (st *Store) Delete(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	return st.code(ctx, sid, func(ch *change) store.Code {
		s := ch.s
		if s.forbids(g) {
			return store.Forbidden
		}
		if r := s.ledger.get(opKey(opID)); opID != "" && r != nil {
			return r.Code
		}
		if !s.exists() {
			return store.None
		}
		if ch.st.late(ch.now, notAfter) {
			return store.Expired
		}
		ch.level = durable
		answer := store.Done
		ch.cancelAll()
		if s.Run != "" {
			answer = store.Busy
			ch.next.Deleting = true
		} else {
			ch.purge()
			ch.vacate()
		}
		if opID != "" {
			ch.record(opKey(opID), LedgerRecord{Code: answer})
		}
		return answer
	})
}

// Clear implements store.Sessions.
func (st *Store) Clear(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	return st.code(ctx, sid, func(ch *change) store.Code {
		s := ch.s
		switch {
		case !s.exists():
			return store.None
		case s.forbids(g):
			return store.Forbidden
		}
		if r := s.ledger.get(opKey(opID)); opID != "" && r != nil {
			return r.Code
		}
		switch {
		case ch.st.late(ch.now, notAfter):
			return store.Expired
		case s.busy():
			return store.Busy
		}
		ch.level, ch.wipe = durable, true
		n := &ch.next
		n.Generation++
		n.Messages, n.ToolCalls, n.Usage, n.Updated = 0, 0, store.Usage{}, ch.now
		if opID != "" {
			ch.record(opKey(opID), LedgerRecord{Code: store.OK})
		}
		return store.OK
	})
}

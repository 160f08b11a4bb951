package redisstore

import (
	"context"
	"fmt"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Head implements store.Sessions.
func (st *Store) Head(ctx context.Context, sids ...string) ([]store.Session, error) {
	for _, sid := range sids {
		if err := checkSID(sid); err != nil {
			return nil, fmt.Errorf("read session %q: %w", sid, err)
		}
	}
	heads := make([]store.Session, 0, len(sids))
	for len(sids) > 0 {
		n := min(len(sids), pipelineBatch)
		page, err := st.heads(ctx, sids[:n])
		if err != nil {
			return nil, err
		}
		heads, sids = append(heads, page...), sids[n:]
	}
	return heads, nil
}

func (st *Store) heads(ctx context.Context, sids []string) ([]store.Session, error) {
	keys := make([][]string, len(sids))
	for i, sid := range sids {
		keys[i] = st.sessionKeys("head", sid)
	}
	heads := make([]store.Session, len(sids))
	replies, errs := st.pipeline(ctx, "head", keys)
	for i, sid := range sids {
		err := errs[i]
		if err == nil {
			alive := replies[i].bool()
			heads[i], err = toSession(sid, alive, replies[i].list())
		}
		if err != nil {
			return nil, fmt.Errorf("read session %q: %w", sid, err)
		}
	}
	return heads, nil
}

// Note implements store.Sessions.
func (st *Store) Note(ctx context.Context, a store.NoteArgs) (store.Code, error) {
	if err := checkSID(a.SID); err != nil {
		return "", err
	}
	attrs := store.Attrs{}
	if a.Create != nil {
		attrs = *a.Create
		if err := st.lists.before(ctx, a.SID, a.Guard); err != nil {
			return "", err
		}
	}
	args := []any{
		st.channel(a.SID), stamped(a.Stamp), a.Guard.Owner, a.Guard.Profile, a.OpID,
		flag(a.Create != nil), random(12), attrs.Source, attrs.Model, attrs.Provider, attrs.Title, attrs.Preview,
	}
	r, err := st.session(ctx, "note", a.SID, noteArgs(rowArgs(args, a.Rows), a.Events)...)
	if err != nil {
		return "", err
	}
	if r.Code == store.OK {
		st.lists.after(a.SID, a.Guard, r.Now)
	}
	return r.Code, nil
}

// noteArgs are the arguments of counted events of no run.
func noteArgs(args []any, events []store.NewEntry) []any {
	args = append(args, len(events))
	for _, e := range events {
		args = append(args, e.Name, e.Payload)
	}
	return args
}

// Update implements store.Sessions.
func (st *Store) Update(ctx context.Context, a store.UpdateArgs) (store.Code, store.Session, error) {
	set := patchArgs(&a.Patch)
	args := []any{
		st.channel(a.SID), stamped(a.Stamp), a.Guard.Owner, a.Guard.Profile, a.NotAfter,
		flag(a.ExpectAutoTitle), a.ExpectMetaVersion, len(set) / 2,
	}
	r, err := st.session(ctx, "update", a.SID, noteArgs(append(args, set...), a.Events)...)
	if err != nil {
		return "", store.Session{}, err
	}
	alive := r.bool()
	after, err := toSession(a.SID, alive, r.list())
	return r.Code, after, err
}

// patchArgs are the fields of the root that a patch sets.
func patchArgs(p *store.MetaPatch) []any {
	var args []any
	for field, value := range map[string]*string{
		"title": p.Title, "tsrc": p.TitleSource, "model": p.Model, "prov": p.Provider,
	} {
		if value != nil {
			args = append(args, field, *value)
		}
	}
	if p.Archived != nil {
		args = append(args, "arch", flag(*p.Archived))
	}
	return args
}

// DropQueue implements store.Sessions.
func (st *Store) DropQueue(ctx context.Context, sid string, g store.Guard, notAfter int64) (store.Code, error) {
	return st.code(st.session(ctx, "drop_queue", sid, st.channel(sid), random(6), g.Owner, g.Profile, notAfter))
}

// Delete implements store.Sessions.
func (st *Store) Delete(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	return st.code(st.session(ctx, "delete", sid, st.channel(sid), random(6), g.Owner, g.Profile, opID, notAfter))
}

// Clear implements store.Sessions.
func (st *Store) Clear(ctx context.Context, sid string, g store.Guard, opID string, notAfter int64) (store.Code, error) {
	r, err := st.session(ctx, "clear", sid, st.channel(sid), g.Owner, g.Profile, opID, notAfter)
	if err == nil && r.Code == store.OK {
		st.lists.after(sid, g, r.Now)
	}
	return st.code(r, err)
}

func (st *Store) code(r *reply, err error) (store.Code, error) {
	if err != nil {
		return "", err
	}
	return r.Code, nil
}

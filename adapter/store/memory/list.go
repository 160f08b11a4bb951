package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// maxPage bounds a page of a list.
const maxPage = 200

// List implements store.Sessions.
func (st *Store) List(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	if err := st.open(); err != nil {
		return store.ListPage{}, err
	}
	if q.Limit <= 0 || q.Limit > maxPage {
		q.Limit = maxPage
	}
	if st.opts.Journal == nil {
		return st.scan(q)
	}
	sids, next, err := st.opts.Journal.List(ctx, q)
	if err != nil {
		return store.ListPage{}, loadError(err)
	}
	heads, err := st.Head(ctx, sids...)
	if err != nil {
		return store.ListPage{}, err
	}
	page := store.ListPage{Next: next, Sessions: heads[:0]}
	for _, h := range heads {
		if h.Exists() && !h.Deleting && Selects(q, &h) {
			page.Sessions = append(page.Sessions, h)
		}
	}
	return page, nil
}

// Selects reports whether a list query selects a session, its cursor aside.
func Selects(q store.ListQuery, h *store.Session) bool {
	if q.Owner != "" && h.Owner != q.Owner {
		return false
	}
	if q.Profiles != nil && !slices.Contains(q.Profiles, h.Profile) {
		return false
	}
	if h.Archived && !q.Archived {
		return false
	}
	text := strings.ToLower(q.Text)
	return text == "" || strings.Contains(strings.ToLower(h.Title), text) || strings.Contains(strings.ToLower(h.Preview), text)
}

// scan lists the sessions in memory.
func (st *Store) scan(q store.ListQuery) (store.ListPage, error) {
	after, err := parseCursor(q.Before)
	if err != nil {
		return store.ListPage{}, err
	}
	st.mu.RLock()
	var found []store.Session
	for _, s := range st.sessions {
		s.mu.RLock()
		h := s.view(st.Now(), st.opts.SingleProcess)
		s.mu.RUnlock()
		if h.Exists() && !h.Deleting && Selects(q, &h) && (q.Before == "" || compare(&h, &after) > 0) {
			found = append(found, h)
		}
	}
	st.mu.RUnlock()
	slices.SortFunc(found, func(a, b store.Session) int { return compare(&a, &b) })
	page := store.ListPage{Sessions: found}
	if len(found) > q.Limit {
		page.Sessions = found[:q.Limit]
		last := &page.Sessions[q.Limit-1]
		page.Next = fmt.Sprintf("%d.%s", last.Updated, last.SID)
	}
	return page, nil
}

// compare orders sessions by last activity, latest first.
func compare(a, b *store.Session) int {
	return cmp.Or(cmp.Compare(b.Updated, a.Updated), cmp.Compare(b.SID, a.SID))
}

func parseCursor(cursor string) (store.Session, error) {
	if cursor == "" {
		return store.Session{}, nil
	}
	updated, sid, ok := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(updated, 10, 64)
	if !ok || err != nil {
		return store.Session{}, ErrCursor
	}
	return store.Session{Updated: n, SID: sid}, nil
}

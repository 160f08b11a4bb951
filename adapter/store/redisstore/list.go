package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// Bounds of a page of a list.
const (
	maxPage   = 200
	listChunk = 64
	maxLooked = 2000 // roots looked at for one page
	staleAge  = time.Minute
)

// hit is a member of a list: a session id, encoded, and its last activity.
type hit struct {
	key    string
	member string
	at     int64
}

// compare orders hits by last activity, latest first.
func (h hit) compare(o hit) int {
	if h.at != o.at {
		return int(min(max(o.at-h.at, -1), 1))
	}
	return strings.Compare(o.member, h.member)
}

// List implements store.Sessions.
func (st *Store) List(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	after, err := parseCursor(q.Before)
	if err != nil {
		return store.ListPage{}, err
	}
	if q.Limit <= 0 || q.Limit > maxPage {
		q.Limit = maxPage
	}
	if err := st.leave(ctx); err != nil {
		return store.ListPage{}, err
	}
	if err := st.lists.flush(ctx); err != nil {
		st.opts.Logger.Debug("session lists may be out of order", zap.Error(err))
	}
	keys, err := st.listKeys(ctx, q)
	if err != nil {
		return store.ListPage{}, err
	}
	m := &merge{st: st, seen: make(map[string]bool)}
	for _, k := range keys {
		m.sources = append(m.sources, &source{key: k, after: after})
	}
	return m.page(ctx, q)
}

// listKeys are the lists that a query goes through.
func (st *Store) listKeys(ctx context.Context, q store.ListQuery) ([]string, error) {
	if q.Owner != "" {
		return []string{st.ownerList(q.Owner)}, nil
	}
	profiles := q.Profiles
	if profiles == nil {
		l := st.use()
		defer l.release()
		ctx, cancel := l.timeout(ctx)
		defer cancel()
		var err error
		if profiles, err = l.client.SMembers(ctx, st.profilesKey()).Result(); err != nil {
			return nil, mapError(ctx, err)
		}
	}
	keys := make([]string, len(profiles))
	for i, p := range profiles {
		keys[i] = st.profileList(p)
	}
	return slices.Compact(slices.Sorted(slices.Values(keys))), nil
}

// source reads one list from a cursor on.
type source struct {
	key    string
	after  *hit
	offset int64
	hits   []hit
	done   bool
}

// newest reads a part of a list.
func (st *Store) newest(ctx context.Context, key string, by *redis.ZRangeBy) ([]redis.Z, error) {
	l := st.use()
	defer l.release()
	ctx, cancel := l.timeout(ctx)
	defer cancel()
	found, err := l.client.ZRevRangeByScoreWithScores(ctx, key, by).Result()
	return found, mapError(ctx, err)
}

// fill reads the next hits if there are none left.
func (s *source) fill(ctx context.Context, st *Store) error {
	for len(s.hits) == 0 && !s.done {
		by := &redis.ZRangeBy{Min: "-inf", Max: "+inf", Offset: s.offset, Count: listChunk}
		if s.after != nil {
			by.Max = strconv.FormatInt(s.after.at, 10)
		}
		found, err := st.newest(ctx, s.key, by)
		if err != nil {
			return err
		}
		s.offset += int64(len(found))
		s.done = len(found) < listChunk
		for _, z := range found {
			member, _ := z.Member.(string)
			h := hit{key: s.key, member: member, at: int64(z.Score)}
			if s.after == nil || h.compare(*s.after) > 0 {
				s.hits = append(s.hits, h)
			}
		}
	}
	return nil
}

// merge goes through several lists at once.
type merge struct {
	st      *Store
	sources []*source
	seen    map[string]bool
	last    *hit
}

// next takes at most n hits.
func (m *merge) next(ctx context.Context, n int) ([]hit, error) {
	var hits []hit
	for len(hits) < n {
		var first *source
		for _, s := range m.sources {
			if err := s.fill(ctx, m.st); err != nil {
				return nil, err
			}
			if len(s.hits) > 0 && (first == nil || s.hits[0].compare(first.hits[0]) < 0) {
				first = s
			}
		}
		if first == nil {
			break
		}
		h := first.hits[0]
		first.hits = first.hits[1:]
		if !m.seen[h.member] {
			m.seen[h.member] = true
			hits = append(hits, h)
		}
	}
	return hits, nil
}

// page reads hits until a page is full, or enough was looked at. The page then
// ends early, with a cursor.
func (m *merge) page(ctx context.Context, q store.ListQuery) (store.ListPage, error) {
	var page store.ListPage
	for looked := 0; ; {
		hits, err := m.next(ctx, min(listChunk, q.Limit+1))
		if err != nil {
			return store.ListPage{}, err
		}
		if len(hits) == 0 {
			return page, nil
		}
		found, err := m.check(ctx, hits)
		if err != nil {
			return store.ListPage{}, err
		}
		for i := range hits {
			if found[i].Exists() && !found[i].Deleting && memory.Selects(q, &found[i]) {
				if len(page.Sessions) == q.Limit {
					page.Next = m.last.cursor()
					return page, nil
				}
				page.Sessions = append(page.Sessions, found[i])
			}
			m.last = &hits[i]
		}
		if looked += len(hits); looked >= maxLooked {
			page.Next = m.last.cursor()
			return page, nil
		}
	}
}

// check reads the roots of hits, and removes those that lead nowhere.
func (m *merge) check(ctx context.Context, hits []hit) ([]store.Session, error) {
	sids := make([]string, len(hits))
	for i, h := range hits {
		sid, err := unescape(h.member)
		if err == nil {
			err = checkSID(sid)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: session list: %w", store.ErrUnavailable, err)
		}
		sids[i] = sid
	}
	found, err := m.st.Head(ctx, sids...)
	if err != nil {
		return nil, err
	}
	for i, h := range hits {
		if found[i].Exists() && (h.key == m.st.ownerList(found[i].Owner) || h.key == m.st.profileList(found[i].Profile)) {
			continue
		}
		found[i] = store.Session{}
		if _, err := m.st.call(ctx, "list_drop", []string{h.key}, h.member, h.at, staleAge.Milliseconds()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (h *hit) cursor() string { return strconv.FormatInt(h.at, 10) + "." + h.member }

var errCursor = fmt.Errorf("%w: not a cursor of this list", store.ErrUnavailable)

func parseCursor(cursor string) (*hit, error) {
	if cursor == "" {
		return nil, nil
	}
	at, member, ok := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return nil, errCursor
	}
	return &hit{member: member, at: n}, nil
}

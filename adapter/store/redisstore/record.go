package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// toSession makes a session of its root. A tombstone is no session.
func toSession(sid string, alive bool, record []any) (store.Session, error) {
	f := fields(record)
	n := func(name string) int64 { return number(f[name]) }
	if n("v") > layoutVersion {
		return store.Session{}, store.ErrTooNew
	}
	if f["ep"] == "" || f["del"] == "2" {
		return store.Session{SID: sid}, nil
	}
	return store.Session{
		SID: sid, Incarnation: f["ep"], Owner: f["own"], Profile: f["pro"],
		Source: f["src"], Model: f["model"], Provider: f["prov"],
		Title: f["title"], TitleSource: f["tsrc"], Preview: f["prev"], Archived: f["arch"] == "1",
		Created: n("ct"), Updated: n("ut"), MetaVersion: n("mv"),
		Head: store.Position{Offset: n("s"), Stamp: f["z"]}, LastRow: n("r"), Generation: n("g"),
		Messages: n("msgs"), ToolCalls: n("tools"),
		Usage: store.Usage{
			Input: n("ui"), Output: n("uo"), CacheRead: n("ucr"), CacheWrite: n("ucw"), Reasoning: n("ure"), Context: n("uc"),
		},
		QueueLength: int(n("ql")), Deleting: f["del"] == "1",
		Run: store.RunRecord{
			Run: f["run"], QID: f["qid"], Phase: store.Phase(f["ph"]), Executor: f["ex"], Attempt: int(n("att")),
			Abort: f["ab"] == "1", WireID: f["rid"], Upstream: data(f["up"]), Rows: n("rj"),
			Token: f["tok"], Fence: n("f"), Node: f["nd"], Alive: alive,
		},
	}, nil
}

// toItem reads the values of an item, nil if there is none.
func toItem(l []any) *store.Item {
	if len(l) == 0 {
		return nil
	}
	r := &reply{values: l}
	return &store.Item{
		QID: r.str(), Run: r.str(), Digest: r.str(), Executor: r.str(), CID: r.str(), Profile: r.str(),
		Row: store.NewRow{Role: store.Role(r.str()), Data: r.bytes()}, Options: r.bytes(), Accepted: r.int(),
	}
}

// streamed reads one element of a stream: its number and its fields.
func streamed(v any) (int64, map[string]string, error) {
	r := &reply{}
	r.values, _ = v.([]any)
	id, _, ok := strings.Cut(r.str(), "-")
	n, err := strconv.ParseInt(id, 10, 64)
	if !ok || err != nil {
		return 0, nil, fmt.Errorf("%w: a stream without numbers", errReply)
	}
	return n, fields(r.list()), nil
}

func toEntries(l []any) ([]store.Entry, error) {
	if len(l) == 0 {
		return nil, nil
	}
	entries := make([]store.Entry, len(l))
	for i, v := range l {
		o, f, err := streamed(v)
		if err != nil {
			return nil, err
		}
		entries[i] = store.Entry{
			NewEntry: store.NewEntry{Kind: store.Kind(f["k"]), Name: f["n"], Payload: data(f["p"])},
			Offset:   o, Stamp: f["z"], Prev: f["pz"], Time: number(f["ts"]), Run: f["x"], Except: f["c"],
			QueueLength: int(number(f["ql"])), QueueIDs: netstrings(f["ids"]), Dequeued: f["dq"],
			QID: f["q"], Row: number(f["row"]),
		}
	}
	return entries, nil
}

// netstrings reads ids that are written as their length, a colon, and themselves.
func netstrings(s string) []string {
	var ids []string
	for s != "" {
		size, rest, ok := strings.Cut(s, ":")
		n, err := strconv.Atoi(size)
		if !ok || err != nil || n < 0 || n > len(rest) {
			return ids
		}
		ids, s = append(ids, rest[:n]), rest[n:]
	}
	return ids
}

func toRow(v any) (store.Row, error) {
	id, f, err := streamed(v)
	return store.Row{
		NewRow: store.NewRow{Role: store.Role(f["r"]), Data: data(f["d"])},
		ID:     id, Time: number(f["ts"]), Run: f["x"], QID: f["q"],
	}, err
}

package storetest

import (
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

func (f *fixture) due(n int) []store.Due {
	f.Helper()
	return must[[]store.Due](f)(f.store.Due(f.ctx(), n))
}

func testIndex(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"a due member is given to one sweeper": func(f *fixture) {
			equal(f, "empty", len(f.due(10)), 0)
			f.noError(f.store.Arm(f.ctx(), "a", 0))
			f.noError(f.store.Arm(f.ctx(), "b", 0))
			f.noError(f.store.Arm(f.ctx(), "later", time.Hour))
			equal(f, "at most", len(f.due(1)), 1)
			equal(f, "the other", len(f.due(10)), 1)
			equal(f, "claimed", len(f.due(10)), 0)
			if f.Pass != nil {
				f.Pass(store.ClaimTime)
				equal(f, "a sweeper that died", len(f.due(10)), 2)
			}
		},
		"the earlier due time stays (H22)": func(f *fixture) {
			f.noError(f.store.Arm(f.ctx(), "a", 0))
			f.noError(f.store.Arm(f.ctx(), "a", time.Hour))
			equal(f, "due", len(f.due(10)), 1)
		},
		"a member is removed by who saw it last (H22)": func(f *fixture) {
			f.noError(f.store.Arm(f.ctx(), "a", 0))
			seen := f.due(1)[0]
			f.noError(f.store.Rescore(f.ctx(), seen, 0, true))
			parked := f.due(1)[0]
			equal(f, "parked", parked.Parked, true)
			f.noError(f.store.Disarm(f.ctx(), parked))
			f.noError(f.store.Arm(f.ctx(), "a", 0))
			equal(f, "armed again", f.due(1)[0].Parked, false)
		},
		"what a sweeper saw before an Arm is void (H22)": func(f *fixture) {
			f.noError(f.store.Arm(f.ctx(), "a", 0))
			first := f.due(1)[0]
			f.noError(f.store.Rescore(f.ctx(), first, 0, true))
			seen := f.due(1)[0]
			f.noError(f.store.Arm(f.ctx(), "a", time.Hour))
			f.noError(f.store.Disarm(f.ctx(), seen))
			f.noError(f.store.Rescore(f.ctx(), seen, 24*time.Hour, true))
			if f.Pass == nil {
				return
			}
			f.Pass(store.ClaimTime)
			due := f.due(10)
			equal(f, "still there", len(due), 1)
			equal(f, "not parked", due[0].Parked, false)
		},
	})
}

func testConnections(t *testing.T, open Open) {
	record := store.ConnRecord{
		PID: "pid-1", User: "alice", Profile: "default", CID: "cid", Holder: "n1/a",
		Rooms: []store.ConnRoom{{Index: 1, SID: "s-1", Incarnation: "ep", Base: store.Position{Offset: 7, Stamp: "z"}, ShownRun: "r"}},
	}
	ttl := time.Minute
	cases(t, open, map[string]func(*fixture){
		"is claimed once and the old holder's saves are refused (H29)": func(f *fixture) {
			save := func(holder string, want store.Code) {
				f.Helper()
				r := record
				r.Holder = holder
				equal(f, "SaveConn", must[store.Code](f)(f.store.SaveConn(f.ctx(), r, ttl)), want)
			}
			save("n1/a", store.OK)
			save("n1/a", store.OK)
			code, was, err := f.store.ClaimConn(f.ctx(), "pid-1", "alice", "n2/b", ttl)
			f.noError(err)
			equal(f, "ClaimConn", code, store.OK)
			equal(f, "was", was.Holder, "n1/a")
			equal(f, "cid", was.CID, "cid")
			equal(f, "rooms", len(was.Rooms), 1)
			equal(f, "room", was.Rooms[0], record.Rooms[0])
			save("n1/a", store.Taken)
			touch := func(holder string, want store.Code) {
				f.Helper()
				equal(f, "TouchConn", must[store.Code](f)(f.store.TouchConn(f.ctx(), "pid-1", holder, ttl)), want)
			}
			touch("n1/a", store.Taken)
			touch("n2/b", store.OK)
			f.noError(f.store.DropConn(f.ctx(), "pid-1", "n1/a"))
			touch("n2/b", store.OK)
			f.noError(f.store.DropConn(f.ctx(), "pid-1", "n2/b"))
			touch("n2/b", store.None)
		},
		"belongs to its user": func(f *fixture) {
			must[store.Code](f)(f.store.SaveConn(f.ctx(), record, ttl))
			for user, want := range map[string]store.Code{"mallory": store.Forbidden, "alice": store.OK} {
				code, _, err := f.store.ClaimConn(f.ctx(), "pid-1", user, "n2/b", ttl)
				f.noError(err)
				equal(f, user, code, want)
			}
			code, _, err := f.store.ClaimConn(f.ctx(), "unknown", "alice", "n2/b", ttl)
			f.noError(err)
			equal(f, "unknown", code, store.None)
		},
		"runs out": func(f *fixture) {
			if f.Pass == nil {
				return
			}
			must[store.Code](f)(f.store.SaveConn(f.ctx(), record, ttl))
			f.Pass(ttl - time.Second)
			equal(f, "touch", must[store.Code](f)(f.store.TouchConn(f.ctx(), "pid-1", "n1/a", ttl)), store.OK)
			f.Pass(ttl - time.Second)
			equal(f, "touch", must[store.Code](f)(f.store.TouchConn(f.ctx(), "pid-1", "n1/a", ttl)), store.OK)
			f.Pass(ttl)
			equal(f, "touch", must[store.Code](f)(f.store.TouchConn(f.ctx(), "pid-1", "n1/a", ttl)), store.None)
		},
	})
}

package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// take asks for one of two places of a gateway; place 0: it is given.
func (f *fixture) take(run string, place int) {
	f.Helper()
	want := store.SlotResult{Code: store.Waiting, Place: place}
	if place == 0 {
		want.Code = store.OK
	}
	equal(f, "TakeSlot "+run, must[store.SlotResult](f)(f.store.TakeSlot(f.ctx(), "gw", run, 2, time.Minute)), want)
}

func (f *fixture) free(run string) {
	f.Helper()
	f.noError(f.store.FreeSlot(f.ctx(), "gw", run))
}

func testSlots(t *testing.T, open Open) {
	cases(t, open, map[string]func(*fixture){
		"are given in the order of first asking": func(f *fixture) {
			f.take("a", 0)
			f.take("b", 0)
			f.take("c", 1)
			f.take("d", 2)
			f.take("e", 3)
			f.take("a", 0)
			f.free("a")
			f.take("d", 2)
			f.take("c", 0)
			f.free("d")
			f.take("e", 1)
			f.free("unknown")
			f.free("b")
			f.take("f", 2)
			f.take("e", 0)
			f.take("f", 1)
		},
		"are a gateway's own": func(f *fixture) {
			f.take("a", 0)
			f.take("b", 0)
			f.noError(f.store.FreeSlot(f.ctx(), "other", "a"))
			equal(f, "other", must[store.SlotResult](f)(f.store.TakeSlot(f.ctx(), "other", "c", 1, time.Minute)).Code, store.OK)
			f.take("c", 1)
		},
		"fall to the next when their holder does not ask again": func(f *fixture) {
			if f.Pass == nil {
				return
			}
			f.take("a", 0)
			f.take("b", 0)
			f.take("c", 1)
			f.take("d", 2)
			f.Pass(40 * time.Second)
			f.take("a", 0)
			f.take("d", 2)
			f.Pass(40 * time.Second) // b and c have fallen out
			f.take("e", 2)
			f.take("d", 0)
			f.take("e", 1)
			f.take("c", 2)
		},
		"are never more than there are": func(f *fixture) {
			var given atomic.Int32
			var calls []func()
			for i := range 16 {
				calls = append(calls, func() {
					st := f.Nodes[i%len(f.Nodes)]
					if res, err := st.TakeSlot(f.ctx(), "gw", fmt.Sprint("r", i), 5, time.Minute); err != nil {
						f.Error(err)
					} else if res.Code == store.OK {
						given.Add(1)
					}
				})
			}
			parallel(calls...)
			equal(f, "given", given.Load(), 5)
		},
	})
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/redisstore"
)

// checkpoint is as large as that of a run of ordinary length; the edge writes one
// after so many events.
var checkpoint = bytes.Repeat([]byte("folded text "), 100)

const (
	checkpointEvents = 256

	appendSessions = 256 // enough at once for the store to send them as pipelines
	appendText     = `{"event":"message.delta","session_id":"s-000000000000","run_id":"r-000000000000","delta":"1700000000000000000 load 0123456789"}`
)

// appendLoad writes events into the store itself, without an edge: many sessions
// at once, each batch as soon as the one before it is acknowledged.
type appendLoad struct {
	batch int // events in one call
	hold  time.Duration
}

func (l appendLoad) measure(ctx context.Context, t *target) (measurement, error) {
	st, err := redisstore.Open(redisstore.Options{Addrs: []string{t.redis.addr}, Node: "bench", Timeout: redisTimeout})
	if err != nil {
		return nil, err
	}
	var (
		events atomic.Int64
		over   atomic.Bool
		m      = measurement{}
		group  errgroup.Group
	)
	for i := range appendSessions {
		group.Go(func() error { return l.write(ctx, st, i, &events, &over) })
	}
	if err = reach(ctx, &events, int64(appendSessions*l.batch)); err == nil {
		err = window(ctx, t, l.hold, &events, m)
	}
	over.Store(true)
	return m, errors.Join(err, group.Wait(), st.Close())
}

// write is one session with one run.
func (l appendLoad) write(ctx context.Context, st *redisstore.Store, i int, events *atomic.Int64, over *atomic.Bool) error {
	sid, token := fmt.Sprintf("append-%d", i), fmt.Sprintf("token-%d", i)
	item := store.Item{
		QID: "q", Run: "run-" + sid, Digest: "d", Executor: "gateway", CID: "c",
		Row: store.NewRow{Role: store.RoleUser, Data: []byte("text")}, Options: []byte("{}"),
	}
	begun, err := st.Submit(ctx, store.SubmitArgs{
		SID: sid, Guard: store.Guard{Owner: "bench", Profile: "default"}, Item: item,
		Start: &store.Start{Token: token, Node: "bench", TTL: store.LeaseTTL},
	})
	if err := answered("begin a run", begun.Code, store.Started, err); err != nil {
		return err
	}
	b := store.Batch{SID: sid, Token: token, Run: item.Run, TTL: store.LeaseTTL}
	for range l.batch {
		b.Events = append(b.Events, store.NewEntry{Kind: store.KindEvent, Name: "message.delta", Payload: []byte(appendText)})
	}
	for !over.Load() {
		b.Seq++
		b.Stamp = fmt.Sprintf("%06x", b.Seq&0xffffff)
		b.Checkpoint = nil
		if b.Seq%max(1, int64(checkpointEvents/l.batch)) == 0 {
			b.Checkpoint = checkpoint
		}
		done, err := st.Append(ctx, b)
		if err := answered("append", done.Code, store.OK, err); err != nil {
			return err
		}
		events.Add(int64(l.batch))
	}
	return nil
}

// answered turns another answer of the store than the wanted one into an error.
func answered(what string, got, want store.Code, err error) error {
	if err == nil && got != want {
		err = fmt.Errorf("the store answered %v", got)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return err
}

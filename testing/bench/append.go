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

	appendBegins   = 8   // runs that begin at once
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
	writers, err := l.begin(ctx, st)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	var (
		events atomic.Int64
		over   atomic.Bool
		m      = measurement{}
		group  errgroup.Group
	)
	for _, w := range writers {
		group.Go(func() error { return w.write(ctx, st, &events, &over) })
	}
	if err = reach(ctx, &events, int64(appendSessions*l.batch)); err == nil {
		err = window(ctx, t, l.hold, &events, m)
	}
	over.Store(true)
	return m, errors.Join(err, group.Wait(), st.Close())
}

// begin starts a run in every session.
func (l appendLoad) begin(ctx context.Context, st *redisstore.Store) ([]*writer, error) {
	writers := make([]*writer, appendSessions)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(appendBegins)
	for i := range writers {
		w := &writer{batch: store.Batch{
			SID: fmt.Sprintf("append-%d", i), Run: fmt.Sprintf("run-%d", i), Token: fmt.Sprintf("token-%d", i), TTL: store.LeaseTTL,
		}}
		for range l.batch {
			w.batch.Events = append(w.batch.Events, store.NewEntry{
				Kind: store.KindEvent, Name: "message.delta", Payload: []byte(appendText),
			})
		}
		writers[i] = w
		group.Go(func() error { return w.begin(ctx, st) })
	}
	return writers, group.Wait()
}

// writer is the owner of a run in a session of its own.
type writer struct{ batch store.Batch }

func (w *writer) begin(ctx context.Context, st *redisstore.Store) error {
	begun, err := st.Submit(ctx, store.SubmitArgs{
		SID: w.batch.SID, Guard: store.Guard{Owner: "bench", Profile: "default"},
		Item: store.Item{
			QID: "q", Run: w.batch.Run, Digest: "d", Executor: "gateway", CID: "c",
			Row: store.NewRow{Role: store.RoleUser, Data: []byte("text")}, Options: []byte("{}"),
		},
		Start: &store.Start{Token: w.batch.Token, Node: "bench", TTL: store.LeaseTTL},
	})
	return answered("begin a run", begun.Code, store.Started, err)
}

func (w *writer) write(ctx context.Context, st *redisstore.Store, events *atomic.Int64, over *atomic.Bool) error {
	b, size := &w.batch, len(w.batch.Events)
	for !over.Load() {
		b.Seq++
		b.Stamp = fmt.Sprintf("%06x", b.Seq&0xffffff)
		b.Checkpoint = nil
		if b.Seq%max(1, int64(checkpointEvents/size)) == 0 {
			b.Checkpoint = checkpoint
		}
		done, err := st.Append(ctx, *b)
		if err := answered("append", done.Code, store.OK, err); err != nil {
			return err
		}
		events.Add(int64(size))
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

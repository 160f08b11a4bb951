package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// Store implements store.Store in one file. Methods are safe for concurrent use.
type Store struct {
	*memory.Store
	journal *journal
	cancel  context.CancelFunc
	swept   chan struct{}
	close   sync.Once
	err     error
}

var _ store.Store = (*Store)(nil)

// ErrLocked is the error of Open when another process has the file open.
var ErrLocked = errors.New("in use by another process")

// Open opens or makes the file. Sessions that were busy when the last process
// ended are due in the work index at once: their runs have no owner. An error
// wraps store.ErrTooNew if a newer version of this program has written the file,
// ErrLocked if another process has it open.
func Open(o Options) (*Store, error) {
	o.complete()
	if err := os.MkdirAll(filepath.Dir(o.Path), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of the store file: %w", err)
	}
	db, err := bolt.Open(o.Path, 0o600, &bolt.Options{Timeout: o.LockWait, FreelistType: bolt.FreelistMapType})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("store file %s: %w: end it, or give this one another file", o.Path, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open store file %s: %w", o.Path, err)
	}
	if err := errors.Join(os.Chmod(o.Path, 0o600), prepare(db)); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare store file %s: %w", o.Path, err), db.Close())
	}
	st := start(o, db)
	if err := st.orphans(); err != nil {
		return nil, errors.Join(fmt.Errorf("read store file %s: %w", o.Path, err), st.Close())
	}
	return st, nil
}

func (o *Options) complete() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.LockWait == 0 {
		o.LockWait = defaultLockWait
	}
	if o.flush == 0 {
		o.flush = flushInterval
	}
	if o.finish == 0 {
		o.finish = finishPatience
	}
	if o.hook == nil {
		o.hook = func(string) error { return nil }
	}
}

func start(o Options, db *bolt.DB) *Store {
	j := &journal{
		opts: o, db: db, log: o.Logger, queue: make(chan *commit, waitingCommits),
		stop: make(chan struct{}), closed: make(chan struct{}),
	}
	j.mem = memory.New(memory.Options{
		Clock: o.clock, Limits: o.Limits, SingleProcess: true, Boot: rand.Text(), Journal: j, CallLimit: o.limit,
	})
	j.retention.Store(o.Retention.Milliseconds())
	ctx, cancel := context.WithCancel(context.Background())
	st := &Store{Store: j.mem, journal: j, cancel: cancel, swept: make(chan struct{})}
	go j.run()
	go st.sweep(ctx)
	return st
}

// Configure changes limits and retention for what comes; a queue that is longer
// than a new limit stays.
func (st *Store) Configure(l store.Limits, retention time.Duration) {
	st.SetLimits(l)
	st.journal.retention.Store(retention.Milliseconds())
}

// orphans makes busy sessions due.
func (st *Store) orphans() error {
	sids, err := st.journal.busy()
	for _, sid := range sids {
		err = errors.Join(err, st.Arm(context.Background(), sid, 0))
	}
	return err
}

func (st *Store) sweep(ctx context.Context) {
	defer close(st.swept)
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			st.journal.sweep(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Close stores what is not in the file yet and closes it. Operations under way
// end with their commit or with store.ErrUnavailable.
func (st *Store) Close() error {
	st.close.Do(func() {
		st.cancel()
		<-st.swept
		st.err = st.Store.Close()
		st.journal.end()
		if err := st.journal.db.Close(); err != nil {
			st.err = errors.Join(st.err, fmt.Errorf("close store file: %w", err))
		}
	})
	return st.err
}

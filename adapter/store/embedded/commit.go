package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
	"github.com/hermes-edge/hermes-edge/adapter/store/memory"
)

// journal stores the deltas of a memory.Store in the file. Its run method is the
// only writer.
type journal struct {
	opts   Options
	db     *bolt.DB
	mem    *memory.Store
	log    *zap.Logger
	queue  chan *commit
	stop   chan struct{}
	closed chan struct{} // run has ended
	failed bool          // the last transaction failed; owned by run

	retention atomic.Int64 // milliseconds; 0: idle sessions stay

	mu      sync.RWMutex // held for reading while a commit is handed over
	stopped bool
}

// commit is a delta on its way.
type commit struct {
	delta   *memory.Delta
	patient bool
	until   time.Time // patient: when to give up; zero before the first try
	done    func(error)
}

// Points of the test hook.
const (
	beforeCommit = "before"
	afterCommit  = "after"
)

var (
	errStopped = errors.New("store is closed")
	errBehind  = errors.New("the store file cannot be written as fast as messages come in; try again")
)

// Commit implements memory.Journal.
func (j *journal) Commit(d *memory.Delta, patient bool, done func(error)) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if j.stopped {
		done(errStopped)
		return
	}
	c := &commit{delta: d, patient: patient, done: done}
	if patient {
		j.queue <- c
		return
	}
	select {
	case j.queue <- c:
	default:
		done(errBehind)
	}
}

// end stops the writer once everything handed over has been answered.
func (j *journal) end() {
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	close(j.stop)
	<-j.closed
}

func (j *journal) view(do func(*bolt.Tx) error) error {
	err := j.db.View(do)
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errStopped)
	}
	return err
}

// run writes until the store is closed: commits as they come, and within a second
// what sessions have changed without waiting for it.
func (j *journal) run() {
	defer close(j.closed)
	flush := time.NewTicker(j.opts.flush / flushSteps)
	defer flush.Stop()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	var again []*commit // patient commits that failed
	for {
		select {
		case c := <-j.queue:
			again = append(again, j.write(j.gather(c))...)
		case <-retry.C:
			if len(again) > 0 {
				again = j.write(again)
			}
		case <-flush.C:
			j.flush(j.opts.flush - j.opts.flush/flushSteps)
		case <-j.stop:
			j.drain(again)
			return
		}
	}
}

// gather adds the commits that wait already. It does not wait for more: those
// that come while a transaction is written make the next one.
func (j *journal) gather(first *commit) []*commit {
	batch := []*commit{first}
	for len(batch) < batchCommits {
		select {
		case c := <-j.queue:
			batch = append(batch, c)
		default:
			return batch
		}
	}
	return batch
}

// write stores a batch in one transaction and answers it. If that fails each
// commit is tried alone, so that one that cannot be stored fails alone. It
// returns the commits that are to be tried again.
func (j *journal) write(batch []*commit) (again []*commit) {
	deltas := make([]*memory.Delta, len(batch))
	for i, c := range batch {
		deltas[i] = c.delta
	}
	err := j.update(deltas)
	for i, c := range batch {
		each := err
		if err != nil && len(batch) > 1 {
			each = j.update(deltas[i : i+1])
		}
		if each != nil && c.patient && j.patience(c) {
			again = append(again, c)
			continue
		}
		c.done(each)
	}
	return again
}

// patience reports whether a patient commit may be tried once more.
func (j *journal) patience(c *commit) bool {
	now := time.Now()
	if c.until.IsZero() {
		c.until = now.Add(j.opts.finish)
	}
	if now.Before(c.until) {
		return true
	}
	j.log.Warn("the store file refuses the end of a run; it takes effect in memory and is stored when the file can be written again")
	return false
}

// update stores deltas in one transaction.
func (j *journal) update(deltas []*memory.Delta) error {
	err := j.opts.hook(beforeCommit)
	if err == nil {
		err = j.db.Update(func(tx *bolt.Tx) error {
			for _, d := range deltas {
				if err := write(tx, d); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil {
		err = j.opts.hook(afterCommit)
	}
	if err != nil {
		err = plain(err)
		if !j.failed {
			j.log.Error("cannot write the store file; new messages are refused until it can be written", zap.Error(err))
		}
	} else if j.failed {
		j.log.Info("the store file can be written again")
	}
	j.failed = err != nil
	return err
}

// plain makes an error fit for users: without file paths.
func plain(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return fmt.Errorf("%s store file: %w", pathError.Op, pathError.Err)
	}
	var sys *os.SyscallError
	if errors.As(err, &sys) {
		return fmt.Errorf("%s store file: %w", sys.Syscall, sys.Err)
	}
	return err
}

// flush stores what sessions have changed since the last one.
func (j *journal) flush(age time.Duration) {
	deltas := j.mem.Pending(flushSessions, age)
	if len(deltas) > 0 && j.update(deltas) == nil {
		j.mem.Stored(deltas)
	}
}

// drain ends the writer: what waits is tried once, what is behind is stored.
func (j *journal) drain(again []*commit) {
	for {
		batch := again
		again = nil
		for len(batch) < batchCommits && len(j.queue) > 0 {
			batch = append(batch, <-j.queue)
		}
		if len(batch) == 0 {
			break
		}
		for _, c := range batch {
			c.until = time.Unix(1, 0)
		}
		j.write(batch)
	}
	for range 1 + len(j.mem.Pending(1<<20, 0))/flushSessions {
		j.flush(0)
	}
	if n := len(j.mem.Pending(1<<20, 0)); n > 0 {
		j.log.Error("the last changes of some sessions could not be written and are lost", zap.Int("sessions", n))
	}
}

// sweep takes idle sessions out of memory and removes outdated ones for good.
func (j *journal) sweep(ctx context.Context) {
	now := j.mem.Now()
	j.mem.Evict(ctx, now-evictAfter.Milliseconds())
	activeBefore := int64(0)
	if keep := j.retention.Load(); keep > 0 {
		activeBefore = now - keep
	}
	sids, err := j.outdated(now, activeBefore, retireBatch)
	if err != nil {
		j.log.Warn("cannot look for outdated sessions", zap.Error(plain(err)))
		return
	}
	for _, sid := range sids {
		if err := j.mem.Retire(ctx, sid, activeBefore); err != nil {
			j.log.Warn("cannot remove an outdated session", zap.Error(err))
			return
		}
	}
}

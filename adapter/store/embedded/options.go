package embedded

import (
	"time"

	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Options configure the store.
type Options struct {
	Path      string        // of the file; its directory is made if it is missing
	Logger    *zap.Logger   // nil: no log
	Limits    store.Limits  // zero value: the defaults
	Retention time.Duration // idle sessions are removed after this time; 0: never
	LockWait  time.Duration // for another process to let go of the file; 0: 2 s

	clock  func() int64             // Unix milliseconds; nil: the wall clock
	hook   func(point string) error // of tests: runs before and after each transaction, an error stands for the file's
	flush  time.Duration            // between background transactions; 0: 1 s
	limit  time.Duration            // of a call; 0: the default of package memory
	finish time.Duration            // how long a Finish is tried again; 0: 10 s
}

const (
	defaultLockWait = 2 * time.Second
	finishPatience  = 10 * time.Second
	flushInterval   = time.Second
	sweepInterval   = 30 * time.Second
	retryInterval   = 250 * time.Millisecond
	flushSteps      = 16   // transactions within flushInterval, among which sessions are spread
	flushSessions   = 1024 // sessions in one background transaction
	batchCommits    = 256  // commits in one transaction
	waitingCommits  = 1024 // commits that wait for the writer
	evictAfter      = time.Minute
	retireBatch     = 64 // sessions removed in one sweep
)

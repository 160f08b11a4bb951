package store

import (
	"context"
	"errors"
	"time"
)

// Errors of every operation. Refusals are results, not errors.
var (
	// ErrUnavailable: the operation was certainly not executed.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUnknown: it may have been executed, now or later.
	ErrUnknown = errors.New("store did not answer in time")
	// ErrTooNew: the session was written by a newer version of this program.
	ErrTooNew = errors.New("session was written by a newer version")
)

// Code is the result of an operation that may refuse.
type Code string

// Result codes. Each operation documents which of them it answers.
const (
	OK        Code = "ok"
	Started   Code = "started"
	Queued    Code = "queued"
	Repeat    Code = "repeat"
	Forbidden Code = "forbidden"
	Deleting  Code = "deleting"
	Withdrawn Code = "withdrawn"
	Conflict  Code = "conflict"
	Expired   Code = "expired"
	Full      Code = "full"
	Kept      Code = "kept"
	Active    Code = "active"
	Done      Code = "done"
	NotQueued Code = "not_queued"
	Cancelled Code = "cancelled"
	Dup       Code = "dup"
	Lost      Code = "lost"
	Fenced    Code = "fenced"
	Ended     Code = "ended"
	Back      Code = "back"
	Idle      Code = "idle"
	Next      Code = "next"
	Waiting   Code = "waiting"
	Purged    Code = "purged"
	Aborting  Code = "aborting"
	Bad       Code = "bad"
	None      Code = "none"
	Already   Code = "already"
	Held      Code = "held"
	Unfit     Code = "unfit"
	Resumed   Code = "run"
	Changed   Code = "changed"
	Busy      Code = "busy"
	Behind    Code = "behind"
	Diverged  Code = "diverged"
	Stale     Code = "stale"
	Unknown   Code = "unknown"
	Taken     Code = "taken"
)

// Store is the contract (contract section 4). All methods are safe for
// concurrent use, honour ctx, bound each call by themselves (a call that takes too
// long ends with ErrUnknown), and may be repeated with the same arguments after
// ErrUnknown.
type Store interface {
	Items
	Runs
	Recovery
	Slots
	Sessions
	Log
	WorkIndex
	Connections

	// Now is the store's time in Unix milliseconds, as last answered by it plus
	// monotonic time since.
	Now() int64
	// Close releases the store. Operations under way end with ErrUnavailable.
	Close() error
}

// Start lets a Submit begin an idle session's run under the caller's tenure.
type Start struct {
	Token string
	Node  string
	TTL   time.Duration
}

// SubmitArgs offers a user message.
type SubmitArgs struct {
	SID      string
	Guard    Guard
	Create   Attrs
	Item     Item
	Start    *Start // nil: only queue
	NotAfter int64  // store time, Unix milliseconds; later execution answers Expired
}

// SubmitResult answers Submit: Started, Queued, Repeat, Forbidden, Deleting,
// Withdrawn, Conflict, Expired or Full.
type SubmitResult struct {
	Code        Code
	Incarnation string
	Fence       int64    // Started
	Row         Row      // Started: the sealed user row
	Before      Position // Started, Queued: position before the first entry of this call
	Last        Position
	Length      int  // Queued: items waiting
	Orphan      bool // Queued: busy without a live owner
	// Repeat: what became of the item, and the run key of the accepted attempt.
	State State
	Run   string
	Now   int64 // Expired: store time
}

// WithdrawResult answers Withdraw: Done (this attempt will never run), Kept
// (another attempt, or an ending, stands), or Active (it is running under Token).
type WithdrawResult struct {
	Code  Code
	State State
	Token string
	Seq   int64
	Phase Phase
}

// CancelResult answers CancelQueued: Cancelled, NotQueued or Forbidden.
type CancelResult struct {
	Code  Code
	State State
}

// Items accepts, cancels and withdraws user messages.
type Items interface {
	// Submit stores a message and either begins its run or queues it (contract
	// 4.1). Results are checked in the order Forbidden, Deleting, Withdrawn,
	// Conflict/Repeat, Expired, Full. Repeated by the same attempt while its
	// result stands, it answers that result again.
	Submit(ctx context.Context, a SubmitArgs) (SubmitResult, error)
	// Withdraw makes sure that the attempt `run` of item qid never runs.
	Withdraw(ctx context.Context, sid, qid, run string) (WithdrawResult, error)
	// CancelQueued removes a waiting item on a user's wish.
	CancelQueued(ctx context.Context, sid string, g Guard, qid string) (CancelResult, error)
	// QueuedRows returns the user rows of items by qid: from the queue, else from
	// the transcript. Items that are nowhere are left out.
	QueuedRows(ctx context.Context, sid string, qids []string) (map[string]Row, error)
}

// Patch changes fields of the active run.
type Patch struct {
	Phase    Phase  // "" = unchanged
	WireID   string // "" = unchanged
	Upstream []byte // nil = unchanged
}

// Batch is what an owner writes under its tenure. The store may keep the payloads
// and row data of a batch, but not its slices.
type Batch struct {
	SID   string
	Token string
	Run   string
	Seq   int64  // last acknowledged sequence + 1
	Stamp string // 6 random characters; entries get Stamp plus their index
	TTL   time.Duration

	Events     []NewEntry
	Rows       []NewRow
	Patch      Patch
	Checkpoint []byte // fold of the owner's entries up to and including this batch
}

// OwnerResult is common to the answers that an owner gets: OK, Dup, Lost, Fenced,
// Ended or Back.
type OwnerResult struct {
	Code        Code
	Before      Position // OK, Dup: position before the first entry
	Last        Position
	Time        int64   // OK, Dup: store time of the entries
	Rows        []int64 // ids of the sealed rows
	Abort       bool
	MetaVersion int64
	QueueLength int   // OK, Dup: items waiting at commit
	Seq         int64 // Back: the last sequence the store has
	State       State // Fenced: ledger state of the caller's item
}

// FinishArgs ends a run.
type FinishArgs struct {
	Batch
	Outcome State // StateCompleted, StateFailed or StateAborted
	End     NewEntry
	Usage   Usage
	Pop     []string // executor classes that may be popped; nil: leave the queue
	Node    string   // holder of the next tenure, the same token
}

// FinishResult answers Finish: Idle, Next, Waiting or Purged; Aborting (an abort
// was asked for and the outcome is another), Bad (aborted without an abort), or
// an owner's refusal.
type FinishResult struct {
	OwnerResult
	Item *Item // Next: the item that has begun
	Row  Row   // Next: its sealed user row
}

// AbortResult answers RequestAbort: OK, Already, Ended (another run is active,
// or this one is over), None (nothing active) or Forbidden.
type AbortResult struct {
	Code  Code
	State State // Ended: ledger state of the run's item, if known
	Alive bool
	Node  string
	Phase Phase
}

// TakeOverArgs asks for the tenure of a session without a live owner.
type TakeOverArgs struct {
	SID   string
	Token string
	Node  string
	TTL   time.Duration
	Caps  []string // executor classes; nil: any
}

// TakeOverResult answers TakeOver: Idle (nothing to do), Held (somebody lives),
// Unfit (the executor class is not in Caps), Resumed (an active run is ours
// now) or Next (a queued item has begun under our tenure).
type TakeOverResult struct {
	Code       Code
	Remaining  time.Duration // Held: until the lease ends
	Node       string        // Held
	Executor   string        // Unfit
	Fence      int64
	Session    Session // Resumed, Next
	Item       *Item   // Resumed, Next
	Row        Row     // Resumed, Next: its user row
	Rerun      bool    // Resumed: the upstream was never called; begin from the start
	Checkpoint []byte  // Resumed
	Entries    []Entry // Resumed: entries behind the checkpoint
}

// Runs are the operations of the owner of a run and those aimed at it.
type Runs interface {
	// Append writes events and rows of the active run and renews the lease.
	Append(ctx context.Context, b Batch) (OwnerResult, error)
	// Renew renews the lease. seq is the last acknowledged sequence.
	Renew(ctx context.Context, sid, token, run string, seq int64, ttl time.Duration) (OwnerResult, error)
	// Finish ends the run and, in the same step, begins the next queued item.
	Finish(ctx context.Context, a FinishArgs) (FinishResult, error)
	// Release gives up the tenure; the run stays active for whoever takes it.
	Release(ctx context.Context, sid, token, run string, seq int64, upstream []byte) (OwnerResult, error)
	// RequestAbort marks a run for abortion and logs the abort entry. run is
	// required: an abort never hits a later run than the one it was meant for.
	RequestAbort(ctx context.Context, sid string, g Guard, run, cid string, entry NewEntry) (AbortResult, error)
	// TakeOver claims a busy session whose owner's lease has ended.
	TakeOver(ctx context.Context, a TakeOverArgs) (TakeOverResult, error)
}

// NoteArgs adds rows and entries that belong to no run.
type NoteArgs struct {
	SID    string
	Guard  Guard
	OpID   string // a repeated note with the same id answers Repeat
	Create *Attrs // non-nil: make the session if it does not exist
	Rows   []NewRow
	Events []NewEntry
	Stamp  string
}

// MetaPatch changes attributes of a session. Nil fields stay.
type MetaPatch struct {
	Title       *string
	TitleSource *string
	Model       *string
	Provider    *string
	Archived    *bool
}

// UpdateArgs changes attributes if the expectations hold.
type UpdateArgs struct {
	SID               string
	Guard             Guard
	Patch             MetaPatch
	ExpectAutoTitle   bool  // refuse with Changed if the title was set by hand
	ExpectMetaVersion int64 // 0: any
	NotAfter          int64
	Events            []NewEntry
	Stamp             string
}

// Sessions are the operations on whole sessions.
type Sessions interface {
	// Head answers the roots of sessions in the order asked; a session that does
	// not exist has no incarnation.
	Head(ctx context.Context, sids ...string) ([]Session, error)
	// List answers a page of sessions.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Note: OK, Repeat, Forbidden, Deleting, or None (no session and no Create).
	Note(ctx context.Context, a NoteArgs) (Code, error)
	// Update: OK, Changed, Forbidden, Expired, or None. The session is returned as
	// it stands afterwards.
	Update(ctx context.Context, a UpdateArgs) (Code, Session, error)
	// DropQueue cancels everything that waits: OK, Forbidden, Expired or None.
	DropQueue(ctx context.Context, sid string, g Guard, notAfter int64) (Code, error)
	// Delete removes an idle session, or marks a busy one for deletion at the end
	// of its run, which the caller must abort: Done, Busy (marked), Forbidden,
	// Expired or None. opID makes a repeated delete answer the same.
	Delete(ctx context.Context, sid string, g Guard, opID string, notAfter int64) (Code, error)
	// Clear removes the transcript of an idle session: OK, Busy, Forbidden,
	// Expired or None.
	Clear(ctx context.Context, sid string, g Guard, opID string, notAfter int64) (Code, error)
}

// Snapshot is one consistent view of a session, rows left out.
type Snapshot struct {
	Session    Session
	Checkpoint []byte
	Covered    int64   // offset covered by the checkpoint
	Entries    []Entry // entries behind it, up to Session.Head
	Queue      []Item  // waiting items in order
}

// ReadResult answers ReadLog: OK, Behind (trimmed or expired) or Diverged.
type ReadResult struct {
	Code    Code
	Entries []Entry
	Head    Position
}

// Hint tells that a session's log has grown. Hints may be lost; the log is the
// truth.
type Hint struct {
	Incarnation string
	Head        Position
	Abort       bool
	Deleted     bool
	Established bool // the subscription (re)starts here: look at the head now
}

// Subscription is a running Subscribe.
type Subscription interface {
	// Close ends it; notify is not called any more once Close has returned. It must
	// not be called by notify.
	Close()
}

// Log reads sessions.
type Log interface {
	// Snapshot creates nothing; an unknown session answers without incarnation.
	Snapshot(ctx context.Context, sid string) (Snapshot, error)
	// Rows answers at most limit rows and maxBytes bytes with id < before (0:
	// newest), in ascending order, and whether there are older ones; code Stale if
	// the history generation is not gen any more.
	Rows(ctx context.Context, sid string, gen, before int64, limit, maxBytes int) (code Code, rows []Row, more bool, err error)
	// ReadLog answers the entries after a position, at most 256 or 512 KiB.
	ReadLog(ctx context.Context, sid, incarnation string, after Position, limit int) (ReadResult, error)
	// Subscribe calls notify for each hint, one at a time; notify must not block
	// nor call the store. The first hint is an Established one.
	Subscribe(ctx context.Context, sid string, notify func(Hint)) (Subscription, error)
}

// Due is a member of the work index whose time has come.
type Due struct {
	SID    string
	Score  int64 // as set by this Due call
	Parked bool
}

// WorkIndex remembers which sessions may need a node's attention (contract 5.11).
// It points at work and is never the truth about it.
type WorkIndex interface {
	// Arm makes sid due after delay; of an old and a new due time the earlier stays.
	// Either way it voids what a sweeper has seen before: that sweeper's Rescore or
	// Disarm does nothing any more. So a sweeper does not Arm what Due gave to it.
	Arm(ctx context.Context, sid string, delay time.Duration) error
	// Due takes at most n due members and sets them ClaimTime ahead.
	Due(ctx context.Context, n int) ([]Due, error)
	// Rescore sets a member's due time if its score is still the one seen.
	Rescore(ctx context.Context, d Due, delay time.Duration, parked bool) error
	// Disarm removes a member if its score is still the one seen.
	Disarm(ctx context.Context, d Due) error
}

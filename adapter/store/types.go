package store

import (
	"strconv"
	"time"
)

// Guard is the owner and profile against which a node authorised a request. An
// operation compares it with the session's own and refuses a mismatch, so that a
// session deleted and made anew by somebody else in between is never touched.
type Guard struct {
	Owner   string
	Profile string
}

// Position says "everything up to and including the entry at Offset, whose stamp
// is Stamp". Offsets alone are never trusted: a store that fell back, or a
// session made anew, repeats them.
type Position struct {
	Offset int64
	Stamp  string
}

// Origin is the position before the first entry of any log.
var Origin = Position{Offset: 0, Stamp: "0"}

// Kind classifies a log entry. A reader passes entries of unknown kinds on.
type Kind string

// Kinds of log entries.
const (
	KindEvent   Kind = "ev"      // any event of a run
	KindStarted Kind = "started" // a run has started upstream
	KindEnd     Kind = "end"     // the one ending of a run
	KindQueue   Kind = "queue"   // the queue changed
	KindPeer    Kind = "peer"    // a user message entered the transcript
	KindAbort   Kind = "abort"   // an abort was asked for
	KindNote    Kind = "note"    // commands, title and other session news
	KindGap     Kind = "gap"     // the log begins anew here
)

// NewEntry is an entry to be written; the store gives it offset, stamp and time.
type NewEntry struct {
	Kind    Kind
	Name    string // event name on the wire
	Payload []byte // event payload as JSON, without the numbers known only at commit
}

// Entry is one record of a session's log. Entries are immutable; their slices
// must not be modified by readers.
type Entry struct {
	NewEntry
	Offset int64
	Stamp  string
	Prev   string // stamp of the entry before
	Time   int64  // store time, Unix milliseconds
	Run    string // run key, empty for entries that belong to no run
	Except string // connection id that must not receive it

	QueueLength int      // items waiting at commit; kinds started, end and queue
	QueueIDs    []string // kind queue: waiting items in order
	Dequeued    string   // kind queue: the item that left the queue to be run
	QID         string   // kind peer: the item the message belongs to; Payload is its row data
	Row         int64    // kind peer: row id of the message
}

// Position returns the position of a reader that has received e.
func (e *Entry) Position() Position { return Position{Offset: e.Offset, Stamp: e.Stamp} }

// Role is the author of a transcript row.
type Role string

// Roles of transcript rows.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleCommand   Role = "command"
)

// EntryStamp is the stamp of the index-th entry written by a call with the given
// call stamp.
func EntryStamp(call string, index int) string { return call + strconv.Itoa(index) }

// NewRow is a transcript row to be sealed.
type NewRow struct {
	Role Role
	Data []byte // opaque row content, JSON
}

// Row is a sealed transcript row. Ids come from one counter per session that
// never goes back, also after the history was cleared.
type Row struct {
	NewRow
	ID   int64
	Time int64 // store time, Unix milliseconds
	Run  string
	QID  string // user rows: the item that brought the message
}

// Item is one accepted user message.
type Item struct {
	QID      string // client's queue id, else made by the node before its first store call
	Run      string // run key: identifies this attempt to accept the message
	Digest   string // of the content; another digest under the same QID is a conflict
	Executor string // executor class that must carry it
	CID      string // connection that sent it; receives no peer entry
	Profile  string
	Row      NewRow // the user row, sealed when the item begins
	Options  []byte // run options, opaque
	Accepted int64  // store time of acceptance, Unix milliseconds; set by the store
}

// Attrs are the attributes of a session that a first Submit creates.
type Attrs struct {
	Source   string
	Model    string
	Provider string
	Title    string
	Preview  string
}

// Usage is token accounting. In a run: what the run used. In a session: Input and
// Context of the latest run that reported them, sums of the others.
type Usage struct {
	Input, Output, CacheRead, CacheWrite, Reasoning, Context int64
}

// Add returns the session usage u after a run that used r. Numbers that are not
// positive count as not reported.
func (u Usage) Add(r Usage) Usage {
	latest := func(old, now int64) int64 {
		if now > 0 {
			return now
		}
		return old
	}
	sum := func(old, now int64) int64 {
		if now > 0 && old+now > old {
			return old + now
		}
		return old
	}
	return Usage{
		Input:      latest(u.Input, r.Input),
		Context:    latest(u.Context, r.Context),
		Output:     sum(u.Output, r.Output),
		CacheRead:  sum(u.CacheRead, r.CacheRead),
		CacheWrite: sum(u.CacheWrite, r.CacheWrite),
		Reasoning:  sum(u.Reasoning, r.Reasoning),
	}
}

// Phase is how far the active run has come.
type Phase string

// Phases of the active run. PhaseSent is written before the upstream request is:
// a run found in it after its node died may have reached the upstream.
const (
	PhaseStarting Phase = "starting"
	PhaseSent     Phase = "sent"
	PhaseRunning  Phase = "running"
)

// State is the ledger's word about an item.
type State string

// States of an item: queued → active → completed, failed or aborted; or
// queued → cancelled.
const (
	StateQueued    State = "queued"
	StateActive    State = "active"
	StateCompleted State = "completed"
	StateFailed    State = "failed"
	StateAborted   State = "aborted"
	StateCancelled State = "cancelled"
)

// Ended reports whether the item will never run (again).
func (s State) Ended() bool { return s != StateQueued && s != StateActive }

// Title sources.
const (
	TitleAuto   = "auto"
	TitleManual = "manual"
)

// Session is the root record as readers see it.
type Session struct {
	SID         string
	Incarnation string // random, new at each creation; empty: the session does not exist
	Owner       string
	Profile     string
	Source      string
	Model       string
	Provider    string
	Title       string
	TitleSource string
	Preview     string
	Archived    bool
	Created     int64 // Unix milliseconds
	Updated     int64 // last activity, Unix milliseconds
	MetaVersion int64

	Head       Position // last entry
	LastRow    int64
	Generation int64 // history generation; a Clear increments it
	Messages   int64 // rows sealed in this generation
	ToolCalls  int64
	Usage      Usage

	QueueLength int
	Run         RunRecord // Run.Run is empty when no run is active
	Deleting    bool
}

// Exists reports whether there is a session. An idle tombstone does not exist.
func (s *Session) Exists() bool { return s.Incarnation != "" }

// Busy reports whether a run is active or waiting (isWorking on the wire).
func (s *Session) Busy() bool { return s.Run.Run != "" || s.QueueLength > 0 }

// RunRecord is the active run.
type RunRecord struct {
	Run      string
	QID      string
	Phase    Phase
	Executor string
	Attempt  int    // takeovers so far
	Abort    bool   // an abort was asked for
	WireID   string // run id shown to clients, once known
	Upstream []byte // upstream ids and cursors, opaque to the store
	Rows     int64  // rows stored of this run
	Token    string // tenure
	Fence    int64  // for logs, metrics and upstream; never a permission
	Node     string
	Alive    bool // the holder's lease lives
}

// ListQuery selects sessions for a list view, latest activity first.
type ListQuery struct {
	Owner    string   // empty: any owner
	Profiles []string // nil: any profile
	Text     string   // substring of title or preview, case-insensitive
	Archived bool     // include archived sessions
	Before   string   // cursor of the previous page
	Limit    int      // at most 200
}

// ListPage is one page of a list view.
type ListPage struct {
	Sessions []Session
	Next     string // cursor of the next page, empty at the end
}

// Limits that every store enforces (contract section 10).
type Limits struct {
	QueueItems    int // 32
	QueueBytes    int // 2 MiB
	ItemBytes     int // 1 MiB
	LedgerEntries int // 4096
	LogKeep       int // entries kept behind the checkpoint: 1000
	LogKeepBytes  int // 512 KiB
}

// DefaultLimits returns the limits of contract section 10.
func DefaultLimits() Limits {
	return Limits{QueueItems: 32, QueueBytes: 2 << 20, ItemBytes: 1 << 20, LedgerEntries: 4096, LogKeep: 1000, LogKeepBytes: 512 << 10}
}

// Times of the contract that engine and store must agree on.
const (
	LeaseTTL     = 15 * time.Second // longest and default lease
	NotAfter     = 5 * time.Second  // validity of a request once sent
	IdleLogTTL   = 15 * time.Minute
	TombstoneTTL = 10 * time.Minute
	ParkTime     = 60 * time.Second // a due index member that was found idle
	ClaimTime    = 5 * time.Second  // a due index member being worked on
)

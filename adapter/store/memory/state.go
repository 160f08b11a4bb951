package memory

import (
	"sync"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// LayoutVersion is the version of Root and its companions as a journal stores
// them. A session with a higher one is refused with store.ErrTooNew.
const LayoutVersion = 1

// Root is the durable part of a session's root record (contract 2.2).
type Root struct {
	Version     int    `json:"v"`
	Incarnation string `json:"ep,omitempty"`
	Owner       string `json:"own,omitempty"`
	Profile     string `json:"pro,omitempty"`
	Source      string `json:"src,omitempty"`
	Model       string `json:"model,omitempty"`
	Provider    string `json:"prov,omitempty"`
	Title       string `json:"title,omitempty"`
	TitleSource string `json:"tsrc,omitempty"`
	Preview     string `json:"prev,omitempty"`
	Archived    bool   `json:"arch,omitempty"`
	Created     int64  `json:"ct,omitempty"`
	Updated     int64  `json:"ut,omitempty"`
	MetaVersion int64  `json:"mv,omitempty"`
	Deleting    bool   `json:"del,omitempty"`
	// Tombstone is the time at which an idle tombstone is forgotten, 0 for a
	// session that lives. A tombstone keeps the ledger only.
	Tombstone int64 `json:"tomb,omitempty"`
	IdleSince int64 `json:"idle,omitempty"`

	// Boot names the process whose log Head belongs to: the log is in memory
	// only, another process begins a new chain.
	Boot string         `json:"boot,omitempty"`
	Head store.Position `json:"head"`

	LastRow    int64       `json:"r,omitempty"`
	Generation int64       `json:"g,omitempty"`
	Messages   int64       `json:"msgs,omitempty"`
	ToolCalls  int64       `json:"tools,omitempty"`
	Usage      store.Usage `json:"usage"`

	QueueLength int   `json:"ql,omitempty"`
	QueueBytes  int   `json:"qb,omitempty"`
	ItemSeq     int64 `json:"qs,omitempty"` // last sequence given to a waiting item
	LedgerSeq   int64 `json:"ds,omitempty"` // last sequence given to a ledger record
	Dequeued    bool  `json:"dq,omitempty"` // the active run was dequeued and has not started
	QueueOwed   bool  `json:"qd,omitempty"` // a queue event is owed

	Run      string      `json:"run,omitempty"`
	QID      string      `json:"qid,omitempty"`
	Phase    store.Phase `json:"ph,omitempty"`
	Executor string      `json:"ex,omitempty"`
	Attempt  int         `json:"att,omitempty"`
	BegunIn  uint64      `json:"gen,omitempty"` // store generation in which the run began
	Abort    bool        `json:"ab,omitempty"`
	WireID   string      `json:"rid,omitempty"`
	Upstream []byte      `json:"up,omitempty"`
	RunRows  int64       `json:"rj,omitempty"`
	UserRow  int64       `json:"ur,omitempty"`
	Began    int64       `json:"bt,omitempty"` // time of the user row
	Covered  int64       `json:"kc,omitempty"`
	Fence    int64       `json:"f,omitempty"`

	LastRun     string      `json:"lr,omitempty"`
	LastOutcome store.State `json:"lo,omitempty"`
}

// exists reports whether there is a session, tombstones left out.
func (r *Root) exists() bool { return r.Incarnation != "" && r.Tombstone == 0 }

// busy reports whether a run is active or waiting.
func (r *Root) busy() bool { return r.Run != "" || r.QueueLength > 0 }

// tenure is what dies with a process: who owns the session and the answers that
// a repeated call of that owner gets.
type tenure struct {
	token string
	node  string
	lease int64 // end of the lease, Unix milliseconds
	taken store.Code

	seq  int64 // last append sequence
	last appended

	endToken string // token under which LastRun ended
	end      *store.FinishResult
}

// appended is the result of the last Append.
type appended struct {
	before store.Position
	last   store.Position
	time   int64
	rows   []int64
}

// state is the root of a session: small, and replaced as a whole by each change.
type state struct {
	Root
	tenure
}

// queued is a waiting item. It is immutable.
type queued struct {
	seq  int64
	item *store.Item
}

// session is one chat session in memory. turn serialises its operations and is
// held while a change is being committed; mu guards what readers look at and is
// held for the moment of applying only. What changes in a turn only is read by its
// holder without mu: all but rows and dirty, which a background transaction
// changes too.
type session struct {
	sid   string
	phase uint8 // spreads what is done for many sessions once in a while
	turn  chan struct{}

	// Owned by the holder of turn.
	loaded bool
	work   change

	mu sync.RWMutex
	state
	gone       bool // left the map; take another look
	log        []store.Entry
	rows       []store.Row // all rows, or with a journal those it does not have yet
	queue      []queued
	ledger     ledger
	active     *store.Item // item of the active run
	checkpoint []byte
	logged     int64 // offset up to which the journal has the log behind the checkpoint

	subs    map[*subscription]struct{}
	used    int64 // time of the last turn
	dirty   pending
	readied bool // loaded, as readers see it
}

// pending is what a journal has not stored yet.
type pending struct {
	revision   uint64 // of the state in memory
	stored     uint64 // of the state in the journal
	since      int64  // time of the first change that is not stored
	root       bool
	checkpoint bool
	full       bool // the journal's copy is of no use: store everything
	wipe       bool // the journal's rows are to go
}

func (p *pending) any() bool { return p.revision != p.stored || p.full }

// view returns the root as readers see it. The caller holds mu or turn.
func (s *session) view(now int64, forever bool) store.Session {
	if !s.exists() {
		return store.Session{SID: s.sid}
	}
	return s.state.session(s.sid, now, forever)
}

func (st *state) session(sid string, now int64, forever bool) store.Session {
	return store.Session{
		SID: sid, Incarnation: st.Incarnation, Owner: st.Owner, Profile: st.Profile,
		Source: st.Source, Model: st.Model, Provider: st.Provider,
		Title: st.Title, TitleSource: st.TitleSource, Preview: st.Preview, Archived: st.Archived,
		Created: st.Created, Updated: st.Updated, MetaVersion: st.MetaVersion,
		Head: st.Head, LastRow: st.LastRow, Generation: st.Generation,
		Messages: st.Messages, ToolCalls: st.ToolCalls, Usage: st.Usage,
		QueueLength: st.QueueLength, Deleting: st.Deleting,
		Run: store.RunRecord{
			Run: st.Run, QID: st.QID, Phase: st.Phase, Executor: st.Executor, Attempt: st.Attempt,
			Abort: st.Abort, WireID: st.WireID, Upstream: st.Upstream, Rows: st.RunRows,
			Token: st.token, Fence: st.Fence, Node: st.node, Alive: st.alive(now, forever),
		},
	}
}

// alive reports whether the owner's lease lives; forever: leases do not expire.
func (st *state) alive(now int64, forever bool) bool {
	return st.token != "" && (forever || now < st.lease)
}

// forbids reports whether a live session belongs to somebody else.
func (r *Root) forbids(g store.Guard) bool {
	return r.exists() && (r.Owner != g.Owner || r.Profile != g.Profile)
}

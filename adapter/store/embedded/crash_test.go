package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// The crash tests run this test binary again as a victim that ends itself, or is
// ended, with SIGKILL at a point of contract section 8, and look at what a
// second process finds in the file.
const (
	victimPath  = "HERMES_EDGE_STORE_VICTIM"
	victimPoint = "HERMES_EDGE_STORE_POINT"
)

func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}

// victim is the process that dies. arm makes the next transaction its last.
type victim struct {
	*testing.T
	st  *Store
	arm atomic.Pointer[string]
}

func (v *victim) hook(point string) error {
	if at := v.arm.Load(); at != nil && *at == point {
		die()
	}
	return nil
}

func (v *victim) dieAt(point string) { v.arm.Store(&point) }

func (v *victim) sent() {
	b := batch("s", "run-q1", 1)
	b.Patch.Phase = store.PhaseSent
	appendOK(v.T, v.st, b)
}

// crashPoint is one way to die and what the next process must find.
type crashPoint struct {
	die  func(*victim)
	find func(*testing.T, *Store)
}

func rerun(want bool) func(*testing.T, *Store) {
	return func(t *testing.T, st *Store) {
		if res := takeOver(t, st, "s", store.Resumed); res.Rerun != want || res.Item.QID != "q1" {
			t.Fatalf("rerun %v of %s, want %v of q1", res.Rerun, res.Item.QID, want)
		}
		if got := rowsOf(t, st, "s"); got != "1:text of q1" {
			t.Fatalf("rows: %s", got)
		}
	}
}

var crashPoints = map[string]crashPoint{
	"in Submit, not stored": {
		func(v *victim) { v.dieAt(beforeCommit); submit(v.T, v.st, "s", "q1", store.Started) },
		func(t *testing.T, st *Store) {
			if head(t, st, "s").Exists() {
				t.Fatal("half a session is there")
			}
			submit(t, st, "s", "q1", store.Started)
		},
	},
	"Submit stored, reply lost (begin)": {
		func(v *victim) { v.dieAt(afterCommit); submit(v.T, v.st, "s", "q1", store.Started) },
		rerun(true),
	},
	"Submit queued": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(afterCommit)
			submit(v.T, v.st, "s", "q2", store.Queued)
		},
		func(t *testing.T, st *Store) {
			submit(t, st, "s", "q2", store.Queued)
			rerun(true)(t, st)
			if n := head(t, st, "s").QueueLength; n != 1 {
				t.Fatalf("queue %d, want 1", n)
			}
		},
	},
	"before ph=sent is stored": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(beforeCommit)
			v.sent()
		},
		rerun(true),
	},
	"ph=sent": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(afterCommit)
			v.sent()
		},
		rerun(false),
	},
	"running, without ph=sent before": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(afterCommit)
			b := batch("s", "run-q1", 1)
			b.Patch.Phase = store.PhaseRunning
			appendOK(v.T, v.st, b)
			v.Fatal("the phase was not stored before the answer")
		},
		rerun(false),
	},
	"refused upstream, back to starting": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.sent()
			v.dieAt(afterCommit)
			b := batch("s", "run-q1", 2)
			b.Patch.Phase = store.PhaseStarting
			appendOK(v.T, v.st, b)
			v.Fatal("the phase was not stored before the answer")
		},
		rerun(true),
	},
	"mid-run, text behind the checkpoint": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.sent()
			b := batch("s", "run-q1", 2)
			b.Checkpoint = []byte("text so far")
			b.Rows = []store.NewRow{{Role: store.RoleTool, Data: []byte("tool")}}
			appendOK(v.T, v.st, b)
			v.dieAt(afterCommit)
			for seq := int64(3); ; seq++ {
				appendOK(v.T, v.st, batch("s", "run-q1", seq))
			}
		},
		func(t *testing.T, st *Store) {
			res := takeOver(t, st, "s", store.Resumed)
			if res.Rerun || string(res.Checkpoint) != "text so far" {
				t.Fatalf("rerun %v, checkpoint %q", res.Rerun, res.Checkpoint)
			}
			logged(t, &res)
			if got := rowsOf(t, st, "s"); got != "1:text of q1|2:tool" {
				t.Fatalf("rows: %s", got)
			}
			b := batch("s", "run-q1", 1)
			b.Token = "tok2"
			a := endOf(b)
			a.Outcome = store.StateFailed
			finish(t, st, a, store.Idle)
		},
	},
	"abort stored": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(afterCommit)
			_, err := v.st.RequestAbort(context.Background(), "s", alice, "run-q1", "", store.NewEntry{Name: "abort.started"})
			v.Fatal(err)
		},
		func(t *testing.T, st *Store) {
			if res := takeOver(t, st, "s", store.Resumed); !res.Session.Run.Abort || res.Rerun {
				t.Fatalf("abort %v, rerun %v", res.Session.Run.Abort, res.Rerun)
			}
		},
	},
	"in Finish, not stored": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			v.dieAt(beforeCommit)
			finish(v.T, v.st, endOf(batch("s", "run-q1", 1)), store.Idle)
		},
		rerun(true),
	},
	"Finish stored, the next begun": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			submit(v.T, v.st, "s", "q2", store.Queued)
			v.dieAt(afterCommit)
			finish(v.T, v.st, endOf(batch("s", "run-q1", 1), "gateway"), store.Next)
		},
		func(t *testing.T, st *Store) {
			if res := takeOver(t, st, "s", store.Resumed); !res.Rerun || res.Item.QID != "q2" {
				t.Fatalf("rerun %v of %s, want q2", res.Rerun, res.Item.QID)
			}
			if got := rowsOf(t, st, "s"); got != "1:text of q1|2:answer of run-q1|3:text of q2" {
				t.Fatalf("rows: %s", got)
			}
			submit(t, st, "s", "q1", store.Repeat)
		},
	},
	"Finish stored, the queue waits": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			submit(v.T, v.st, "s", "q2", store.Queued)
			v.dieAt(afterCommit)
			finish(v.T, v.st, endOf(batch("s", "run-q1", 1)), store.Waiting)
		},
		func(t *testing.T, st *Store) {
			if res := takeOver(t, st, "s", store.Next); res.Item.QID != "q2" {
				t.Fatalf("next %s", res.Item.QID)
			}
		},
	},
	"TakeOver stored, taker dead": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			closed(v.T, v.st)
			again := Options{Path: v.st.journal.opts.Path, hook: v.hook}
			v.st = open(v.T, again)
			v.dieAt(afterCommit)
			takeOver(v.T, v.st, "s", store.Resumed)
		},
		func(t *testing.T, st *Store) {
			if res := takeOver(t, st, "s", store.Resumed); !res.Rerun || res.Session.Run.Attempt != 2 {
				t.Fatalf("rerun %v, attempt %d, want the second", res.Rerun, res.Session.Run.Attempt)
			}
		},
	},
	"Delete of a busy session": {
		func(v *victim) {
			submit(v.T, v.st, "s", "q1", store.Started)
			submit(v.T, v.st, "s", "q2", store.Queued)
			v.dieAt(afterCommit)
			_, err := v.st.Delete(context.Background(), "s", alice, "op", 0)
			v.Fatal(err)
		},
		func(t *testing.T, st *Store) {
			submit(t, st, "s", "q3", store.Deleting)
			takeOver(t, st, "s", store.Resumed)
			b := batch("s", "run-q1", 1)
			b.Token = "tok2"
			finish(t, st, endOf(b), store.Purged)
			submit(t, st, "s", "q2", store.Repeat)
		},
	},
	"Withdraw stored": {
		func(v *victim) {
			v.dieAt(afterCommit)
			_, err := v.st.Withdraw(context.Background(), "s", "q1", "run-q1")
			v.Fatal(err)
		},
		func(t *testing.T, st *Store) { submit(t, st, "s", "q1", store.Withdrawn) },
	},
}

func TestCrashPoints(t *testing.T) {
	if path := os.Getenv(victimPath); path != "" {
		v := &victim{T: t}
		v.st = open(t, Options{Path: path, hook: v.hook})
		crashPoints[os.Getenv(victimPoint)].die(v)
		t.Fatal("the victim lives")
	}
	for name, point := range crashPoints {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			out, err := victimCommand("^TestCrashPoints$", o.Path, name).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Fatalf("the victim was not killed: %v\n%s", err, out)
			}
			point.find(t, open(t, o))
		})
	}
}

func victimCommand(test, path, point string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run", test)
	cmd.Env = append(os.Environ(), victimPath+"="+path, victimPoint+"="+point)
	return cmd
}

// TestAcknowledgedIsStored kills a process in the middle of its work: what it
// has been told is stored must be there, and the session must be whole.
func TestAcknowledgedIsStored(t *testing.T) {
	if path := os.Getenv(victimPath); path != "" {
		work(t, open(t, Options{Path: path}))
	}
	for round := range 3 {
		o := options(t)
		cmd := victimCommand("^TestAcknowledgedIsStored$", o.Path, "")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "ended %d", &ended); err == nil && ended == 10+7*round {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			t.Fatalf("the victim ended by itself: %v", err)
		}
		found(t, open(t, o), ended)
	}
}

// work ends one run after the other, each begun by the end of the one before,
// and says so.
func work(t *testing.T, st *Store) {
	submit(t, st, "s", "q0", store.Started)
	for i := 0; ; i++ {
		submit(t, st, "s", fmt.Sprint("q", i+1), store.Queued)
		finish(t, st, endOf(batch("s", fmt.Sprint("run-q", i), int64(i+1)), "gateway"), store.Next)
		fmt.Println("ended", i)
	}
}

func found(t *testing.T, st *Store, ended int) {
	t.Helper()
	h := head(t, st, "s")
	active := 0
	if _, err := fmt.Sscanf(h.Run.Run, "run-q%d", &active); err != nil || active <= ended {
		t.Fatalf("run %q is active, but %d has ended", h.Run.Run, ended)
	}
	rows := strings.Split(rowsOf(t, st, "s"), "|")
	if len(rows) != 2*active+1 {
		t.Fatalf("%d rows, want %d", len(rows), 2*active+1)
	}
	for i := range active {
		user, answer := fmt.Sprintf("%d:text of q%d", 2*i+1, i), fmt.Sprintf("%d:answer of run-q%d", 2*i+2, i)
		if rows[2*i] != user || rows[2*i+1] != answer {
			t.Fatalf("rows %q and %q, want %q and %q", rows[2*i], rows[2*i+1], user, answer)
		}
	}
	res, err := st.TakeOver(context.Background(), store.TakeOverArgs{SID: "s", Token: "tok2", Node: "n", TTL: time.Minute})
	if err != nil || res.Code != store.Resumed || !res.Rerun {
		t.Fatalf("TakeOver: %+v, %v", res, err)
	}
}

// logged checks that what was logged behind the checkpoint is there, in one chain.
func logged(t *testing.T, res *store.TakeOverResult) {
	t.Helper()
	if len(res.Entries) == 0 {
		t.Fatal("the text behind the checkpoint is lost")
	}
	at := store.Origin
	for i := range res.Entries {
		e := &res.Entries[i]
		if e.Prev != at.Stamp || e.Offset != at.Offset+1 || len(e.Payload) == 0 || e.Run != res.Session.Run.Run {
			t.Fatalf("entry %d behind %v: %+v", i, at, e)
		}
		at = e.Position()
	}
	if res.Session.Head != at {
		t.Fatalf("head %v, last entry %v", res.Session.Head, at)
	}
}

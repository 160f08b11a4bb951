package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

// Bounds of a lane.
const (
	pipelineCalls = 128
	pipelineBytes = 256 << 10
	queuedCalls   = 8192
	maxLanes      = 256
	underWay      = 2 // pipelines at once: one is executed while the answers of the other are read
)

var errCrowded = fmt.Errorf("%w: too many calls wait for redis", store.ErrUnavailable)

// way is what calls have in common that share pipelines: a shard, and what they
// are, so that writes do not wait behind what others read.
type way struct{ addr, lane string }

// lanes are the ways to the shards of a deployment.
type lanes struct {
	link *link
	work sync.WaitGroup

	mu     sync.RWMutex
	all    map[way]*lane
	closed bool
}

func newLanes(l *link) *lanes { return &lanes{link: l, all: make(map[way]*lane)} }

func (ls *lanes) wait() {
	ls.mu.Lock()
	ls.closed = true
	ls.mu.Unlock()
	ls.work.Wait()
}

// lane sends calls to one shard as pipelines: the first calls leave at once, what
// comes while they are under way forms the next pipeline. A call is sent once.
type lane struct {
	lanes *lanes
	addr  string

	mu     sync.Mutex
	queue  []*job
	sent   time.Time // when something left last
	moving int       // calls and pipelines under way
}

// job is one call of a script.
type job struct {
	script *script
	keys   []string
	args   []any
	size   int
	taken  atomic.Bool // by the lane, to be sent; or by its caller, who has left

	done  chan struct{} // closed when it has been answered
	reply []any
	err   error
}

// lane returns the one of a key's shard. In a cluster that is told by the slots as
// they were last seen; the client redirects what has moved.
func (ls *lanes) lane(ctx context.Context, s *script, key string) *lane {
	addr := ls.link.serving(ctx, key)
	to := way{addr, s.lane}
	ls.mu.RLock()
	l := ls.all[to]
	ls.mu.RUnlock()
	if l != nil {
		return l
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l = ls.all[to]; l == nil {
		if len(ls.all) >= maxLanes { // nodes come and go; calls under way end as they would have
			clear(ls.all)
		}
		l = &lane{lanes: ls, addr: addr}
		ls.all[to] = l
	}
	return l
}

// run sends a call and waits for its answer, or until ctx ends: then it is either
// not sent any more or its answer is not waited for.
func (ls *lanes) run(ctx context.Context, s *script, keys []string, args []any) ([]any, error) {
	l := ls.lane(ctx, s, keys[0])
	j, err := l.enter(s, keys, args)
	if err != nil {
		return nil, err
	}
	if j == nil {
		defer l.leave()
		ls.link.opts.Observer.Pipeline(1)
		return s.Run(ctx, ls.link.client, keys, args...).Slice()
	}
	select {
	case <-j.done:
		return j.reply, j.err
	case <-ctx.Done():
	}
	if j.taken.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("%w: not sent in time: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	return nil, ctx.Err()
}

func argSize(args []any) int {
	n := 0
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			n += len(a)
		case string:
			n += len(a)
		}
	}
	return n
}

// enter lets a call go by itself, then without a job, or puts it in line. While
// nothing is answered none is taken, and those in line leave it.
func (l *lane) enter(s *script, keys []string, args []any) (*job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shards := l.lanes.link.shards
	switch {
	case l.moving < underWay:
		l.moving++
		l.sent = time.Now()
		return nil, nil
	case len(l.queue) >= queuedCalls:
		return nil, errCrowded
	case time.Since(l.sent) > shards.patience() && shards.refuses(l.addr):
		l.refuse(errOpen)
		return nil, errOpen
	}
	j := &job{script: s, keys: keys, args: args, size: argSize(args), done: make(chan struct{})}
	l.queue = append(l.queue, j)
	return j, nil
}

// leave ends a call that went by itself. What has come meanwhile follows.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) > 0 && l.lanes.goes(l) {
		return
	}
	l.moving--
	l.refuse(errClosed)
}

// refuse ends what is in line. The caller holds mu.
func (l *lane) refuse(err error) {
	for _, j := range l.queue {
		if j.taken.CompareAndSwap(false, true) {
			j.err = err
			close(j.done)
		}
	}
	l.queue = nil
}

// goes starts to send pipelines, unless the link is closed.
func (ls *lanes) goes(l *lane) bool {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	if ls.closed {
		return false
	}
	ls.work.Go(l.move)
	return true
}

// move sends pipelines as long as there are calls in line.
func (l *lane) move() {
	for {
		jobs := l.next()
		if jobs == nil {
			return
		}
		l.send(jobs)
	}
}

// next takes what the next pipeline holds.
func (l *lane) next() []*job {
	l.mu.Lock()
	defer l.mu.Unlock()
	var jobs []*job
	size := 0
	for len(l.queue) > 0 && len(jobs) < pipelineCalls {
		j := l.queue[0]
		if len(jobs) > 0 && size+j.size > pipelineBytes {
			break
		}
		l.queue[0] = nil
		l.queue = l.queue[1:]
		if j.taken.CompareAndSwap(false, true) {
			jobs, size = append(jobs, j), size+j.size
		}
	}
	if jobs == nil {
		l.queue = nil
		l.moving--
		return nil
	}
	l.sent = time.Now()
	return jobs
}

// send sends a pipeline, and once more those whose script the server did not know.
func (l *lane) send(jobs []*job) {
	link := l.lanes.link
	ctx, cancel := link.timeout(context.Background())
	defer cancel()
	link.opts.Observer.Pipeline(len(jobs))
	var unknown []*job
	for i, cmd := range l.pipe(ctx, jobs, false) {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, jobs[i])
		} else {
			jobs[i].answer(cmd)
		}
	}
	if len(unknown) == 0 {
		return
	}
	for i, cmd := range l.pipe(ctx, unknown, true) {
		unknown[i].answer(cmd)
	}
}

// pipe sends calls by the digest of their script, or with its text.
func (l *lane) pipe(ctx context.Context, jobs []*job, whole bool) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(jobs))
	p := l.lanes.link.client.Pipeline()
	for i, j := range jobs {
		if whole {
			cmds[i] = j.script.Eval(ctx, p, j.keys, j.args...)
		} else {
			cmds[i] = j.script.EvalSha(ctx, p, j.keys, j.args...)
		}
	}
	if _, err := p.Exec(ctx); err != nil {
		var reply redis.Error
		for _, cmd := range cmds {
			if cmd.Err() == nil && cmd.Val() == nil && !errors.As(err, &reply) {
				cmd.SetErr(err)
			}
		}
	}
	return cmds
}

func (j *job) answer(cmd *redis.Cmd) {
	j.reply, j.err = cmd.Slice()
	close(j.done)
}

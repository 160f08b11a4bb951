//go:build unix

package scaleout

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e/wire"
)

const (
	herd       = 300
	herdChats  = 30
	herdReturn = 30 * time.Second
	// perWindow bounds the Redis commands for one window that comes back; those of
	// one chat share the reading of it.
	perWindow = 40
)

// commands is how many commands Redis has executed.
func (c *cluster) commands() int {
	c.t.Helper()
	for line := range strings.Lines(c.redis.Do("INFO", "stats")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				c.t.Fatal(err)
			}
			return n
		}
	}
	c.t.Fatal("INFO stats has no total_commands_processed")
	return 0
}

// SCL-03: 300 windows in 30 chats lose their node; all are back on the other one in
// time, with what they had, and Redis is asked a bounded number of times.
func TestEverybodyReconnectsAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, setup{options: []string{"limits {", "connections_per_user 1000", "}"}})
	lost, other := c.nodes[0], c.nodes[1]
	for i := range herdChats {
		w := lost.alice()
		w.Run(chatName(i), "q"+strconv.Itoa(i), "hello "+strconv.Itoa(i))
		w.UntilThat("the answer", isEnding)
		w.Close()
	}
	windows := make([]*wire.Socket, herd)
	c.each("the first time", func(i int) error {
		var err error
		windows[i], err = insist(lost.URL, i)
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	before := c.commands()
	lost.Kill()
	since := time.Now()
	c.each("again", func(i int) error {
		if _, err := windows[i].Next(); err == nil {
			return fmt.Errorf("window %d got an event after the end", i)
		}
		again, err := insist(other.URL, i)
		if err != nil {
			return err
		}
		again.Cut()
		return nil
	})
	within(t, "everybody is back", since, time.Now(), herdReturn)
	spent := c.commands() - before
	t.Logf("%d commands for %d windows", spent, herd)
	if spent > herd*perWindow {
		t.Errorf("%d commands for %d windows", spent, herd)
	}
}

func chatName(i int) string { return "chat" + strconv.Itoa(i%herdChats) }

// each does something for every window at once.
func (c *cluster) each(what string, do func(i int) error) {
	c.t.Helper()
	var group sync.WaitGroup
	errs := make([]error, herd)
	for i := range herd {
		group.Go(func() { errs[i] = do(i) })
	}
	group.Wait()
	failed := 0
	for i, err := range errs {
		if err == nil {
			continue
		}
		if failed++; failed <= 5 {
			c.t.Errorf("%s: window %d: %v", what, i, err)
		}
	}
	if failed > 5 {
		c.t.Errorf("%s: %d windows in all", what, failed)
	}
}

// insist is open by somebody who comes again when a busy node sends him away.
func insist(url string, i int) (*wire.Socket, error) {
	const pause = 500 * time.Millisecond
	for deadline := time.Now().Add(herdReturn); ; {
		s, err := open(url, i)
		if err == nil || time.Now().After(deadline) {
			return s, err
		}
		timer := time.NewTimer(pause)
		<-timer.C
	}
}

// open connects one window and reads its chat.
func open(url string, i int) (*wire.Socket, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := wire.Open(ctx, wire.Dialer{Node: func() string { return url }}, aliceToken, wire.Identity{})
	if err != nil {
		return nil, err
	}
	if err := s.Emit("resume", map[string]string{"session_id": chatName(i)}); err != nil {
		s.Cut()
		return nil, err
	}
	e, err := s.Next()
	if err != nil {
		s.Cut()
		return nil, err
	}
	var r struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.Unmarshal(e.Payload, &r); err != nil || e.Name != "resumed" || len(r.Messages) != 2 {
		s.Cut()
		return nil, fmt.Errorf("got %s %.200s", e.Name, e.Payload)
	}
	return s, nil
}

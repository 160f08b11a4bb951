package engineio

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestPollingMessages(t *testing.T) {
	for name, body := range map[string]string{
		"one":         "4hello",
		"several":     "4test1\x1e4test2\x1e4test3",
		"binary":      "4hello\x1ebAQIDBA==",
		"just binary": "bAQ==",
		"empty text":  "4",
		"not ASCII":   "4grüße \U0001F642",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, wiretest.Loopback, Options{})
			url, _ := r.OpenPolling(path)
			post := r.Post(url, body)
			wantAnswer(t, post, 200, "ok")
			if ct := post.Header.Get("Content-Type"); ct != "text/html" {
				t.Errorf("content type %q", ct)
			}
			wantAnswer(t, r.Get(url), 200, body)
		})
	}
}

func TestPollingMalformed(t *testing.T) {
	for _, body := range []string{"abc", "", "4a\x1e", "b!!", "4\xff", "2", "0{}", "5", "7"} {
		r := newRig(t, wiretest.Loopback, Options{})
		url, _ := r.OpenPolling(path)
		if a := r.Post(url, body); a.Status != 400 {
			t.Errorf("POST %q: %d %q", body, a.Status, a.Body)
		}
		r.wantReason(t, ReasonParseError)
		wantAnswer(t, r.Get(url), 400, `{"code":1,"message":"Session ID unknown"}`)
	}
}

// openPoll sends a poll and returns once the server holds it.
func (r *rig) openPoll(t *testing.T, ctx context.Context, url string) <-chan wiretest.Answer {
	t.Helper()
	c := <-r.recorder.opened
	answer := make(chan wiretest.Answer, 1)
	go func() {
		a, err := r.Try(ctx, http.MethodGet, url, "")
		if err != nil {
			a.Body = err.Error()
		}
		answer <- a
	}()
	for held := false; !held; {
		c.mu.Lock()
		held = c.poll != nil && c.poll.waiting != nil
		c.mu.Unlock()
		runtime.Gosched()
	}
	r.recorder.opened <- c
	return answer
}

func TestOverlappingPollsCloseTheSession(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	first := r.openPoll(t, t.Context(), url)
	wantAnswer(t, r.Get(url), 400, "")
	wantAnswer(t, <-first, 200, "1")
	wantAnswer(t, r.Get(url), 400, "")
}

func TestCancelledPollClosesTheSession(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	ctx, cancel := context.WithCancel(t.Context())
	first := r.openPoll(t, ctx, url)
	cancel()
	<-first
	wantAnswer(t, r.Get(url), 400, "")
	r.wantReason(t, ReasonTransportError)
}

func TestOverlappingPostsCloseTheSession(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	c := <-r.opened
	if fail := c.beginPost(); fail != nil { // a POST whose body never ends
		t.Fatal(fail)
	}
	wantAnswer(t, r.Post(url, "4x"), 400, "")
	r.wantReason(t, ReasonTransportError)
	wantAnswer(t, r.Get(url), 400, "")
}

// SIO-04: a body above the limit is refused without being read to its end.
func TestPollingBodyTooBig(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxPayload: 1000})
	url, _ := r.OpenPolling(path)
	wantAnswer(t, r.Post(url, "4"+strings.Repeat("x", 999)), 200, "ok")
	wantAnswer(t, r.Post(url, "4"+strings.Repeat("x", 1000)), 413, "")
	r.wantReason(t, ReasonTooBig)
}

func TestClientClosesPolling(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	poll := r.openPoll(t, t.Context(), url)
	wantAnswer(t, r.Post(url, "1"), 200, "ok")
	wantAnswer(t, <-poll, 200, "6")
	wantAnswer(t, r.Get(url), 400, "")
	r.wantReason(t, ReasonTransportClose)
}

func TestServerClosesPolling(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	c := <-r.opened
	if err := c.Send(Message{Data: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	c.Close(ReasonMoved)
	if err := c.Send(Message{}); err != ErrClosed {
		t.Errorf("send after close: %v", err)
	}
	wantAnswer(t, r.Get(url), 200, "4last\x1e1")
	wantAnswer(t, r.Get(url), 400, "")
}

// caddy-surface R8: held polls are answered when the process exits.
func TestEndPolls(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	poll := r.openPoll(t, t.Context(), url)
	r.srv.EndPolls()
	wantAnswer(t, <-poll, 200, "6")
	wantAnswer(t, r.Get(url), 200, "6")
	wantAnswer(t, r.Post(url, "4x"), 200, "ok")
	wantAnswer(t, r.Get(url), 200, "4x")
}

func (r *rig) upgrade(t *testing.T, url string) *wiretest.Client {
	t.Helper()
	c := r.Dial(strings.Replace(url, "transport=polling", "transport=websocket", 1))
	c.Text("2probe")
	c.Want("3probe")
	return c
}

func TestUpgrade(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	c := r.upgrade(t, url)
	wantAnswer(t, r.Get(url), 200, "6") // SIO-03: a poll during the probe is released
	wantAnswer(t, r.Post(url, "4before"), 200, "ok")
	c.Text("5", "4hello")
	c.Want("4before")
	c.Want("4hello")
	wantAnswer(t, r.Get(url), 400, "")
	wantAnswer(t, r.Post(url, "4x"), 400, "")
	second := r.Dial(strings.Replace(url, "transport=polling", "transport=websocket", 1))
	second.WantClose(ws.StatusPolicyViolation)
	c.Text("4still")
	c.Want("4still")
	if got := (<-r.opened).Transport(); got != WebSocket {
		t.Errorf("transport %v", got)
	}
}

// SIO-03: the poll that was open before the probe is released at once.
func TestUpgradeReleasesOpenPoll(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	poll := r.openPoll(t, t.Context(), url)
	c := r.upgrade(t, url)
	wantAnswer(t, <-poll, 200, "6")
	c.Text("5", "4x")
	c.Want("4x")
}

// A poll that the upgrade packet overtakes is refused, not answered.
func TestUpgradeRefusesHeldPoll(t *testing.T) {
	r := newRig(t, wiretest.Memory, Options{})
	url, _ := r.OpenPolling(path)
	c := r.Dial(strings.Replace(url, "transport=polling", "transport=websocket", 1))
	poll := r.openPoll(t, t.Context(), url)
	go c.Text("2probe", "5")
	c.Want("3probe")
	wantAnswer(t, <-poll, 400, "")
}

func TestUpgradeRefusesOtherPackets(t *testing.T) {
	for _, packets := range [][]string{{"4x"}, {"5"}, {"2"}, {"abc"}, {"2probe", "4x"}} {
		r := newRig(t, wiretest.Loopback, Options{})
		url, _ := r.OpenPolling(path)
		c := r.Dial(strings.Replace(url, "transport=polling", "transport=websocket", 1))
		c.Text(packets...)
		c.WantClose(ws.StatusProtocolError)
		wantAnswer(t, r.Post(url, "4x"), 200, "ok") // the session goes on polling
		wantAnswer(t, r.Get(url), 200, "4x")
	}
}

func TestUpgradeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{UpgradeTimeout: time.Second})
		url, _ := r.OpenPolling(path)
		begin := time.Now()
		c := r.upgrade(t, url)
		c.WantClose(0)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("unfinished upgrade lived %v", d)
		}
		synctest.Wait()
		c = r.upgrade(t, url) // and another may be tried
		go c.Text("5", "4x")
		c.Want("4x")
	})
}

// Sessions and upgrades that are left behind disappear with the heartbeat.
func TestAbandonedPollingIsReaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, suiteTimes)
		for range 20 {
			r.OpenPolling(path)
			url, _ := r.OpenPolling(path)
			r.upgrade(t, url)
		}
		time.Sleep(500 * time.Millisecond) // the bubble's clock
		synctest.Wait()
		if n := r.srv.Connections(); n != 0 {
			t.Errorf("%d sessions left", n)
		}
		for range 40 {
			r.wantReason(t, ReasonPingTimeout)
		}
	})
}

func TestPollingHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, suiteTimes)
		url, _ := r.OpenPolling(path)
		for range 3 {
			begin := time.Now()
			wantAnswer(t, r.Get(url), 200, "2")
			if d := time.Since(begin); d != 300*time.Millisecond {
				t.Errorf("ping after %v", d)
			}
			wantAnswer(t, r.Post(url, "3"), 200, "ok")
		}
	})
}

// The suite polls exactly at the end of the timeout: dead is dead.
func TestPollingDiesSharply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, suiteTimes)
		url, _ := r.OpenPolling(path)
		time.Sleep(500 * time.Millisecond)
		wantAnswer(t, r.Get(url), 400, "")
	})
}

func TestConcurrentPollingTraffic(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			url, _ := r.OpenPolling(path)
			for range 20 {
				if a := r.Post(url, "4a\x1e4b"); a.Status != 200 {
					t.Errorf("POST %d %q", a.Status, a.Body)
				}
				for got := ""; got != "4a4b"; {
					got += strings.ReplaceAll(r.Get(url).Body, "\x1e", "")
				}
			}
		})
	}
	wg.Wait()
}

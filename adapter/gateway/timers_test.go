package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener hands in-memory connections to a server, so that a test can run
// under a fake clock.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pipeClient returns a client whose gateway is h, inside a synctest bubble.
func pipeClient(t *testing.T, cfg Config, h http.HandlerFunc) *Client {
	t.Helper()
	listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The server sees a closed connection only once the body is read.
		io.Copy(io.Discard, r.Body)
		h(w, r)
	})}
	var served sync.WaitGroup
	served.Go(func() { server.Serve(listener) })
	cfg.BaseURL = "http://gateway.test"
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.transport.DialContext = listener.dial
	t.Cleanup(func() {
		c.Close()
		server.Close()
		served.Wait()
	})
	return c
}

func send(w http.ResponseWriter, parts ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, part := range parts {
		fmt.Fprint(w, part)
	}
	w.(http.Flusher).Flush()
}

func pause(r *http.Request, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.Context().Done():
	}
}

// R5, RUN-02, SSE-05, GW-12, GW-45: the timers of a stream.
func TestStreamTimers(t *testing.T) {
	keepAlive := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			send(w, frames(created))
			for range n {
				pause(r, 30*time.Second)
				send(w, ": keepalive\n\n")
			}
			send(w, frames(delta("Hi"), completed))
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		class   Class
		text    string
		after   time.Duration
	}{
		{"ten minutes of keep-alives", keepAlive(20), ClassUnknown, "", 10 * time.Minute},
		{"keep-alives for ever", keepAlive(10_000), ClassNoProgress, "The Hermes gateway sent only keep-alives for 30m0s", 30 * time.Minute},
		{"silence after the start", func(w http.ResponseWriter, r *http.Request) {
			send(w, frames(created))
			<-r.Context().Done()
		}, ClassSilent, "The Hermes gateway sent nothing for 10m0s", 10 * time.Minute},
		{"silence inside a frame", func(w http.ResponseWriter, r *http.Request) {
			send(w, "data: {")
			pause(r, 9*time.Minute)
			send(w, `"type`)
			<-r.Context().Done()
		}, ClassSilent, "The Hermes gateway sent nothing for 10m0s", 19 * time.Minute},
		{"no headers", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, ClassSilent, "The Hermes gateway did not answer within 1m0s", time.Minute},
		{"slow text", func(w http.ResponseWriter, r *http.Request) {
			for range 6 {
				pause(r, 9*time.Minute)
				send(w, frames(delta("x")))
			}
			send(w, frames(completed))
		}, ClassSilent, "The Hermes gateway did not answer within 1m0s", time.Minute},
		{"slow text after the headers", func(w http.ResponseWriter, r *http.Request) {
			send(w, frames(created))
			for range 6 {
				pause(r, 9*time.Minute)
				send(w, frames(delta("x")))
			}
			send(w, frames(completed))
		}, ClassUnknown, "", 54 * time.Minute},
		{"RUN-08 end of body comes late", func(w http.ResponseWriter, r *http.Request) {
			send(w, frames(delta("x"), completed))
			pause(r, time.Hour)
		}, ClassUnknown, "", drainTime},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pipeClient(t, Config{}, test.handler)
				start := time.Now()
				_, err := c.Responses(context.Background(), ResponsesRequest{Input: "x"}, &transcript{})
				if took := time.Since(start); took != test.after {
					t.Errorf("took %v, want %v", took, test.after)
				}
				got := AsError(err)
				if test.class == ClassUnknown {
					if err != nil {
						t.Error(err)
					}
				} else if got == nil || got.Class != test.class || got.Text != test.text || got.Retryable() {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

// A body that trickles in with an error status does not hold the turn.
func TestErrorBodyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pipeClient(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for r.Context().Err() == nil {
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				pause(r, time.Second)
			}
		})
		start := time.Now()
		_, err := c.Responses(context.Background(), ResponsesRequest{Input: "x"}, &transcript{})
		if AsError(err) == nil || AsError(err).Class != ClassServerError || time.Since(start) > errorBodyTime {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

//go:build unix

package peer

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPoll compares a poll that is answered where it arrives with one that is
// forwarded: CPU of the process, client and both nodes included, and the time to
// the answer. README.md has the figures.
func BenchmarkPoll(b *testing.B) {
	answer := func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		_, _ = io.WriteString(w, `42/chat-run,["message.delta",{"event":"message.delta","session_id":"s","delta":"some text "},"abcd.0:123:abcdef"]`)
	}
	b.Run("local", func(b *testing.B) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r, "") }))
		defer server.Close()
		measure(b, server.Client(), server.URL)
	})
	b.Run("forwarded", func(b *testing.B) {
		w := start(b, answer)
		measure(b, w.client, w.front.URL)
	})
}

func measure(b *testing.B, client *http.Client, url string) {
	poll := func() {
		response, err := client.Get(url)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	poll() // opens the connections
	took := make([]time.Duration, 0, b.N)
	before := cpuTime(b)
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		poll()
		took = append(took, time.Since(began))
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

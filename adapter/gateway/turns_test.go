package gateway

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// GW-50: 1000 turns that end in every way leave nothing behind. TestMain looks
// for goroutines; the server below must see every connection end or go idle.
func TestThousandTurns(t *testing.T) {
	inputs := []string{"plain", "[[tool]]", "[[html]]", "[[cut]]", "[[eof]]", "[[fail 500]]", "[[fail 429]]", "[[masked]]",
		"[[failed]]", "[[error]]", "[[redirect]]", "[[reset]]", "[[twice]]"}
	for _, name := range fakegateway.Fixtures() {
		if name != "responses_long_line" {
			inputs = append(inputs, "[[fixture "+name+"]]")
		}
	}
	fake, c := fakeAndClient(t, Config{})
	const turns, parallel = 1000, 8
	next := make(chan int)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for i := range next {
				ask(t, c, inputs[i%len(inputs)])
			}
		})
	}
	for i := range turns {
		next <- i
	}
	close(next)
	workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := fake.WaitFor(ctx, func(s fakegateway.State) bool { return s.Requests == turns && s.Active == 0 }); err != nil {
		t.Error(err)
	}
}

// GW-46: a gateway that stalls one turn does not stop the others.
func TestTurnsDoNotWaitForEachOther(t *testing.T) {
	fake, c := fakeAndClient(t, Config{})
	stalled := make(chan *Error, 1)
	go func() {
		_, _, err := ask(t, c, "[[hold]]")
		stalled <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := fake.WaitFor(ctx, func(s fakegateway.State) bool { return s.Held == 1 }); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, _, err := ask(t, c, fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	fake.Release()
	if err := <-stalled; err != nil {
		t.Error(err)
	}
}

// A connection serves one turn after another.
func TestConnectionIsReused(t *testing.T) {
	var mu sync.Mutex
	remotes := map[string]bool{}
	fake := fakegateway.New(fakegateway.Options{})
	c := newClient(t, Config{BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		remotes[r.RemoteAddr] = true
		mu.Unlock()
		fake.ServeHTTP(w, r)
	})})
	for range 20 {
		if _, _, err := ask(t, c, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections for 20 turns in a row", len(remotes))
	}
}

// 20 turns of 1000 deltas at once over loopback, gateway included.
func BenchmarkBurst(b *testing.B) {
	fake := fakegateway.Start(b, fakegateway.Options{})
	c := newClient(b, Config{BaseURL: fake.URL})
	b.ReportAllocs()
	for b.Loop() {
		var turns sync.WaitGroup
		for range 20 {
			turns.Go(func() {
				if _, err := c.Responses(context.Background(), ResponsesRequest{Input: "[[load 1000 0]]"}, discard{}); err != nil {
					b.Error(err)
				}
			})
		}
		turns.Wait()
	}
	b.ReportMetric(float64(20_000*b.N)/b.Elapsed().Seconds(), "deltas/s")
}

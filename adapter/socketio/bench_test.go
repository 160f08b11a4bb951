package socketio

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

var delta = json.RawMessage(`{"event":"message.delta","session_id":"m9x1k2abc","run_id":"r1","delta":"some text of a token or two"}`)

// BenchmarkEncode builds the shared packet, once for all sockets of an event.
func BenchmarkEncode(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = NewPacket("/chat-run", "message.delta", delta)
	}
}

// BenchmarkSend is what each further socket costs, without the network.
func BenchmarkSend(b *testing.B) {
	for name, offset := range map[string]string{"plain": "", "offset": "1f-8842-a0"} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, wiretest.Loopback, Options{SendBuffer: 1 << 30})
			url, _ := r.OpenPolling(path)
			r.Post(url, "40")
			s := <-r.sockets
			p := NewPacket("/", "message.delta", delta)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.Send(p, offset); err != nil {
					b.Fatal(err)
				}
				if i%1000 == 999 {
					b.StopTimer()
					r.Get(url)
					b.StartTimer()
				}
			}
		})
	}
}

func BenchmarkDecodeEvent(b *testing.B) {
	text := []byte(`2/chat-run,["run",{"session_id":"m9x1k2abc","input":"hello there","queue_id":"q1"}]`)
	b.ReportAllocs()
	for b.Loop() {
		h, err := decodeHeader(text)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := decodeEvent(h.payload); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEcho is a round trip over loopback, client included.
func BenchmarkEcho(b *testing.B) {
	for name, text := range map[string]string{"64B": strings.Repeat("x", 64), "1KiB": strings.Repeat("x", 1024)} {
		b.Run(name, func(b *testing.B) {
			r := newRig(b, wiretest.Loopback, Options{})
			c, _ := r.join(b, "")
			b.ReportAllocs()
			for b.Loop() {
				c.Text(`421["message-with-ack","` + text + `"]`)
				c.Next()
			}
		})
	}
}

// BenchmarkIdleMemory reports heap and stack of a connected, idle socket. Both
// ends live in this process, so half of the sockets' cost is the client's.
func BenchmarkIdleMemory(b *testing.B) {
	r := newRig(b, wiretest.Loopback, Options{})
	r.join(b, "")
	const n = 2000
	for b.Loop() {
		before := inUse()
		for range n {
			r.join(b, "")
		}
		b.ReportMetric(float64(inUse()-before)/n, "B/socket")
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

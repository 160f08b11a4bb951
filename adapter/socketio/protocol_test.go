package socketio

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobwas/ws"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

func TestConnect(t *testing.T) {
	for _, c := range []struct{ packet, namespace, auth string }{
		{"40", "", `42["auth",{}]`},
		{`40{"token":"123"}`, "", `42["auth",{"token":"123"}]`},
		{"40/,", "", `42["auth",{}]`},
		{"40/custom,", "/custom", `42/custom,["auth",{}]`},
		{"40/custom", "/custom", `42/custom,["auth",{}]`},
		{`40/custom,{"token":"abc"}`, "/custom", `42/custom,["auth",{"token":"abc"}]`},
	} {
		t.Run(c.packet, func(t *testing.T) {
			r := newRig(t, wiretest.Loopback, Options{})
			client := r.Dial(wsURL)
			o := client.Opened()
			client.Text(c.packet)
			reply := wantConnect(t, client, c.namespace)
			client.Want(c.auth)
			s := <-r.sockets
			if len(reply) != 1 || reply["sid"] == o.SID || reply["sid"] != s.ID() {
				t.Errorf("reply %v, socket %q, connection %q", reply, s.ID(), o.SID)
			}
			if s.Conn().Meta() != "meta" || s.Conn().ID() != o.SID {
				t.Error("the connection lost its admission")
			}
		})
	}
}

func TestConnectReplyCarriesPID(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	r.connect = func(context.Context, *Socket, json.RawMessage) (Welcome, error) {
		return Welcome{SID: "the-sid", PID: "the-pid"}, nil
	}
	c := r.Dial(wsURL)
	c.Opened()
	c.Text("40")
	c.Want(`40{"sid":"the-sid","pid":"the-pid"}`)
}

func TestConnectRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"message", &Refused{Message: "Authentication failed"}, `44/custom,{"message":"Authentication failed"}`},
		{"data", &Refused{Message: "no", Data: map[string]int{"a": 1}}, `44/custom,{"message":"no","data":{"a":1}}`},
		{"plain error is not shown", errPlain, `44/custom,{"message":"Connection refused"}`},
		{"data that does not encode", &Refused{Message: "no", Data: func() {}}, `44/custom,{"message":"no"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, wiretest.Loopback, Options{})
			refuse := true
			r.connect = func(context.Context, *Socket, json.RawMessage) (Welcome, error) {
				if refuse {
					refuse = false
					return Welcome{}, c.err
				}
				return Welcome{}, nil
			}
			client := r.Dial(wsURL)
			client.Opened()
			client.Text("40/custom,")
			client.Want(c.want)
			client.Text("40/custom,") // it may try again
			wantConnect(t, client, "/custom")
		})
	}
}

// SIO-08: a namespace that does not exist leaves the others alone.
func TestUnknownNamespace(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, _ := r.join(t, "")
	c.Text("40/random")
	c.Want(`44/random,{"message":"Invalid namespace"}`)
	c.Text(`42["message",1]`)
	c.Want(`42["message-back",1]`)
}

func TestSeveralNamespaces(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, root := r.join(t, "")
	c.Text("40/custom,")
	wantConnect(t, c, "/custom")
	c.Want(`42/custom,["auth",{}]`)
	if custom := <-r.sockets; custom.Conn() != root.Conn() || custom.ID() == root.ID() {
		t.Error("namespaces share the connection, not the socket id")
	}
	c.Text("41/custom,", `42/custom,["message","late"]`, `42["message","to main"]`)
	c.Want(`42["message-back","to main"]`)
	if got := <-r.disconnected; got != ReasonClientNamespace {
		t.Errorf("left with %v", got)
	}
	c.Text("40/custom,")
	wantConnect(t, c, "/custom")
}

func TestMaxNamespaces(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxNamespaces: 1})
	c, _ := r.join(t, "")
	c.Text("40/custom,")
	c.Want(`44/custom,{"message":"Too many namespaces"}`)
}

func TestMessages(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, _ := r.join(t, "")
	for _, pair := range [][2]string{
		{`42["message"]`, `42["message-back"]`},
		{`42["message",1,"2",{"3":[true]}]`, `42["message-back",1,"2",{"3":[true]}]`},
		{`42[ "message" , {"a" : "],["} , "\"," ]`, `42["message-back",{"a" : "],["},"\","]`},
		{`42["mess\u0061ge",null]`, `42["message-back",null]`},
		{`42456["message-with-ack",1,"2",{"3":[false]}]`, `43456[1,"2",{"3":[false]}]`},
		{`420["message-with-ack"]`, `430[]`},
	} {
		c.Text(pair[0])
		c.Want(pair[1])
	}
}

func TestBinary(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, _ := r.join(t, "")
	c.Text(`452-["message",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.Binary("\x01\x02\x03")
	c.Binary("\x04\x05\x06")
	c.Want(`452-["message-back",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.WantBinary("\x01\x02\x03")
	c.WantBinary("\x04\x05\x06")
	c.Text(`452-789["message-with-ack",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.Binary("\x01")
	c.Binary("")
	c.Want(`462-789[{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.WantBinary("\x01")
	c.WantBinary("")
}

func TestBinaryOverPolling(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	url, _ := r.OpenPolling(path)
	r.Post(url, "40")
	var got []string
	for len(got) < 2 {
		got = append(got, strings.Split(r.Get(url).Body, "\x1e")...)
	}
	r.Post(url, "451-[\"message\",{\"_placeholder\":true,\"num\":0}]\x1ebAQIDBA==")
	if a := r.Get(url); a.Body != "451-[\"message-back\",{\"_placeholder\":true,\"num\":0}]\x1ebAQIDBA==" {
		t.Errorf("%q", a.Body)
	}
}

// SIO-08, CR-28: what is not the protocol ends that connection only.
func TestMalformed(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	other, _ := r.join(t, "")
	for _, packets := range [][]string{
		{"4abc"}, {"4"}, {"47"}, {"42{}"}, {"42"}, {"42[}"}, {"42[1,]"}, {"42[{}]"}, {"42[null]"}, {"42[]"},
		{`42abc["message"]`}, {`42["message"`}, {`4212345678901234567["message"]`},
		{`42["disconnect"]`}, {`42["connect_error"]`},
		{"40"}, {"41{}"}, {"44{}"}, {"43[]"}, {"45[\"message\"]"}, {"459999-[\"message\"]"}, {"451-"}, {"40/" + strings.Repeat("x", 256)},
		{`42/never,["message"]`}, {"40/custom,[]"}, {"40/custom,{"}, {`40/custom,{"a":}`},
		{`451-["message",{"_placeholder":true,"num":0}]`, `42["message"]`},
	} {
		t.Run(fmt.Sprintf("%.60s", packets), func(t *testing.T) {
			c, _ := r.join(t, "")
			c.Text(packets...)
			c.WantClose(ws.StatusProtocolError)
			if got := <-r.disconnected; got != ReasonParseError {
				t.Errorf("disconnected with %v", got)
			}
			other.Text(`42["message"]`)
			other.Want(`42["message-back"]`)
		})
	}
	c, _ := r.join(t, "")
	c.Binary("stray")
	c.WantClose(ws.StatusProtocolError)
}

func TestEventBeforeConnect(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c := r.Dial(wsURL)
	c.Opened()
	c.Text(`42["message"]`)
	c.WantClose(ws.StatusProtocolError)
}

func TestBinaryPacketTooBig(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{MaxPayload: 1000})
	c, _ := r.join(t, "")
	c.Text(`4510-["message"]`)
	for range 5 {
		c.Binary(strings.Repeat("x", 900))
	}
	c.WantClose(ws.StatusMessageTooBig)
}

func TestConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{ConnectTimeout: time.Second})
		begin := time.Now()
		c := r.Dial(wsURL)
		c.Opened()
		c.WantClose(ws.StatusPolicyViolation)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("closed after %v", d)
		}
		c, _ = r.join(t, "")
		time.Sleep(2 * time.Second)
		c.Text("41") // and again when the last namespace is left
		begin = time.Now()
		c.WantClose(ws.StatusPolicyViolation)
		if d := time.Since(begin); d != time.Second {
			t.Errorf("closed after %v without a namespace", d)
		}
	})
}

func TestConnectHandlerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, wiretest.Memory, Options{ConnectTimeout: time.Second})
		r.connect = func(ctx context.Context, _ *Socket, _ json.RawMessage) (Welcome, error) {
			<-ctx.Done()
			return Welcome{}, ctx.Err()
		}
		c := r.Dial(wsURL)
		c.Opened()
		c.Text("40")
		c.Want(`44{"message":"Connection timed out"}`)
	})
}

func TestOffsetIsAppended(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	c, s := r.join(t, "/custom")
	p := NewPacket("/custom", "message.delta", json.RawMessage(`{"delta":"x"}`))
	for offset, want := range map[string]string{
		"":           `42/custom,["message.delta",{"delta":"x"}]`,
		"5-a":        `42/custom,["message.delta",{"delta":"x"},"5-a"]`,
		`"\ü` + "\n": `42/custom,["message.delta",{"delta":"x"},"\"\\ü\n"]`,
	} {
		if err := s.Send(p, offset); err != nil {
			t.Fatal(err)
		}
		c.Want(want)
	}
	if err := s.Send(NewPacket("/custom", "none", nil), "o"); err != nil {
		t.Fatal(err)
	}
	c.Want(`42/custom,["none","o"]`)
}

func TestUpgradeKeepsOrder(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{SendBuffer: 1 << 20})
	url, _ := r.OpenPolling(path)
	r.Post(url, "40")
	s := <-r.sockets
	const n = 200
	for i := range n / 2 {
		if err := s.Emit("n", i); err != nil {
			t.Fatal(err)
		}
	}
	polled := r.Get(url).Body
	c := r.Dial(strings.Replace(url, "polling", "websocket", 1))
	c.Text("2probe")
	c.Want("3probe")
	for i := n / 2; i < n; i++ {
		if err := s.Emit("n", i); err != nil {
			t.Fatal(err)
		}
	}
	polled += "\x1e" + r.Get(url).Body
	c.Text("5", `42["message"]`)
	all := polled
	for !strings.Contains(all, "message-back") {
		all += "\x1e" + c.Next()
	}
	i := 0
	for part := range strings.SplitSeq(all, "\x1e") {
		if rest, ok := strings.CutPrefix(part, `42["n",`); ok {
			var got int
			if err := json.Unmarshal([]byte(strings.TrimSuffix(rest, "]")), &got); err != nil || got != i {
				t.Fatalf("event %q, want number %d", part, i)
			}
			i++
		}
	}
	if i != n {
		t.Errorf("%d of %d events came", i, n)
	}
}

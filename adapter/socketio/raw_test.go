package socketio

import (
	"encoding/json"
	"testing"

	"github.com/hermes-edge/hermes-edge/adapter/socketio/internal/wiretest"
)

// relay answers CONNECT itself and gives back every packet.
type relay struct {
	c       *Conn
	packets chan RawPacket
	closed  chan Reason
}

func (r *relay) Packet(p RawPacket) {
	r.packets <- p
	if p.Text[0] == '2' || p.Text[0] == '5' {
		_ = r.c.SendRaw(p)
	}
}

func (r *relay) Closed(reason Reason) { r.closed <- reason }

func newRelayRig(t *testing.T) (*rig, *relay) {
	r := newRig(t, wiretest.Loopback, Options{})
	rel := &relay{packets: make(chan RawPacket, 10), closed: make(chan Reason, 10)}
	r.srv.HandleUnknown(func(c *Conn, namespace string, connect json.RawMessage) (RawNamespace, bool) {
		if namespace != "/group-chat" {
			return nil, false
		}
		rel.c = c
		_ = c.SendRaw(RawPacket{Text: []byte(`0/group-chat,{"sid":"upstream","auth":` + string(connect) + `}`)})
		return rel, true
	})
	return r, rel
}

// caddy-surface 3, foreign namespaces: packets pass verbatim, a binary packet
// and its attachments as one unit, beside a namespace of our own.
func TestRelayedNamespace(t *testing.T) {
	r, rel := newRelayRig(t)
	c, _ := r.join(t, "")
	c.Text(`40/group-chat,{"token":"t"}`)
	c.Want(`40/group-chat,{"sid":"upstream","auth":{"token":"t"}}`)
	c.Text(`42/group-chat,17["disconnect", {"kept" :1}]`) // not ours to judge
	c.Want(`42/group-chat,17["disconnect", {"kept" :1}]`)
	c.Text(`452-/group-chat,["b",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.Binary("one")
	c.Binary("two")
	c.Want(`452-/group-chat,["b",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]`)
	c.WantBinary("one")
	c.WantBinary("two")
	c.Text(`43/group-chat,5["answer"]`, `42["message"]`)
	c.Want(`42["message-back"]`)
	c.Text("41/group-chat,")
	if got := <-rel.closed; got != ReasonClientNamespace {
		t.Errorf("closed with %v", got)
	}
	var types string
	for range 4 {
		types += string((<-rel.packets).Text[0])
	}
	if types != "2531" {
		t.Errorf("packet types %q", types)
	}
}

func TestRelayRefuses(t *testing.T) {
	r, _ := newRelayRig(t)
	c, _ := r.join(t, "")
	c.Text("40/other,")
	c.Want(`44/other,{"message":"Invalid namespace"}`)
	c.Text("40/other,")
	c.Want(`44/other,{"message":"Invalid namespace"}`)
}

func TestRelayEnds(t *testing.T) {
	r, rel := newRelayRig(t)
	c, _ := r.join(t, "")
	c.Text("40/group-chat,{}")
	c.Next()
	if err := rel.c.SendRaw(RawPacket{Text: []byte("1/group-chat,")}); err != nil {
		t.Fatal(err)
	}
	c.Want("41/group-chat,")
	if got := <-rel.closed; got != ReasonServerNamespace {
		t.Errorf("closed with %v", got)
	}
	c.Text("40/group-chat,{}")
	c.Next()
	if err := c.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-rel.closed; got != ReasonTransportError {
		t.Errorf("closed with %v", got)
	}
}

func TestSendRawRefusesNonsense(t *testing.T) {
	r := newRig(t, wiretest.Loopback, Options{})
	_, s := r.join(t, "")
	for _, p := range []RawPacket{
		{}, {Text: []byte("x")}, {Text: []byte(`51-["x"]`)},
		{Text: []byte(`2["x"]`), Attachments: [][]byte{{1}}},
	} {
		if err := s.Conn().SendRaw(p); err == nil {
			t.Errorf("%q was sent", p.Text)
		}
	}
}

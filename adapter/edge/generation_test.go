package edge

import (
	"errors"
	"net/url"
	"testing"
)

// Nodes that each have a gateway of their own at a loopback address share no limit,
// those of one machine and those of one address do.
func TestSlotsName(t *testing.T) {
	host := func(name string) func() (string, error) {
		return func() (string, error) { return name, nil }
	}
	nameless := func() (string, error) { return "", errors.New("no name") }
	name := func(address string, hostname func() (string, error)) string {
		base, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return slotsName(base, hostname)
	}
	const local, shared = "http://127.0.0.1:8642", "http://gateway.internal:8642"
	if name(local, host("a")) == name(local, host("b")) {
		t.Error("two machines share the limit of their own gateways")
	}
	if first, second := name(local, host("a")), name(local, host("a")); first != second {
		t.Error("nodes of one machine do not share the limit of its gateway")
	}
	if name(shared, host("a")) != name(shared, host("b")) {
		t.Error("machines do not share the limit of one gateway")
	}
	if got := name(local, nameless); got != local {
		t.Errorf("a machine without a name counts at %q", got)
	}
}

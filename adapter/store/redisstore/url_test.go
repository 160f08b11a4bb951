package redisstore

import (
	"slices"
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]Options{
		"redis://localhost":                             {Mode: Standalone, Addrs: []string{"localhost:6379"}},
		"redis://localhost/":                            {Mode: Standalone, Addrs: []string{"localhost:6379"}},
		"redis://edge:p%40ss@10.0.0.1:7000/3":           {Mode: Standalone, Addrs: []string{"10.0.0.1:7000"}, Username: "edge", Password: "p@ss", DB: 3},
		"redis://:secret@h?db=2":                        {Mode: Standalone, Addrs: []string{"h:6379"}, Password: "secret", DB: 2},
		"redis://[::1]:7000":                            {Mode: Standalone, Addrs: []string{"[::1]:7000"}},
		"redis://[::1]":                                 {Mode: Standalone, Addrs: []string{"[::1]:6379"}},
		"redis+sentinel://a,b:26380,c/mymaster?db=1":    {Mode: Sentinel, Addrs: []string{"a:26379", "b:26380", "c:26379"}, Master: "mymaster", DB: 1},
		"redis+cluster://u:p:with:colons@a:7000,b:7001": {Mode: Cluster, Addrs: []string{"a:7000", "b:7001"}, Username: "u", Password: "p:with:colons"},
		"unix:///run/redis.sock":                        {Mode: Standalone, Addrs: []string{"/run/redis.sock"}},
		"unix://edge:p%2Fw@/run/my%20redis.sock?db=2":   {Mode: Standalone, Addrs: []string{"/run/my redis.sock"}, Username: "edge", Password: "p/w", DB: 2},
	} {
		got, err := ParseURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got.Mode != want.Mode || !slices.Equal(got.Addrs, want.Addrs) || got.Master != want.Master || got.DB != want.DB ||
			got.Username != want.Username || got.Password != want.Password || got.TLS != nil {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	o, err := ParseURL("rediss+cluster://a,b")
	if err != nil || o.TLS == nil || o.Mode != Cluster {
		t.Errorf("TLS: %+v, %v", o, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for _, text := range []string{
		"", "localhost:6379", "http://:secret@h", "redis://", "redis://:secret@", "redis://:secret@h:0", "redis://:secret@h:99999", "redis://:secret@h:port",
		"redis://:secret@a,b", "redis://:secret@h/one", "redis://:secret@h/-1", "redis://:secret@h?secret=1&pool=3", "redis://:secret%zz@h",
		"redis+sentinel://:secret@h", "redis+sentinel://:secret@h/", "redis+cluster://:secret@h/1", "redis+moon://:secret@h", "redis://:secret@h/1?%zz",
		"unix://", "unix://:secret@/", "unix://:secret@host/run/redis.sock", "unix+cluster://:secret@/run/redis.sock", "unix://:secret@/run/x?db=y", "unix://:secret@/%zz",
	} {
		_, err := ParseURL(text)
		if err == nil {
			t.Errorf("%q was accepted", text)
			continue
		}
		if strings.Contains(err.Error(), ":secret") {
			t.Errorf("%q: the error tells the password: %v", text, err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("redis+sentinel://u:p@a:1,b/m?db=1")
	f.Add("rediss://[::1]:7000/0")
	f.Fuzz(func(t *testing.T, text string) {
		o, err := ParseURL(text)
		if err != nil {
			return
		}
		o.Node = "n"
		if err := o.complete(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestOptionsRefused(t *testing.T) {
	good := Options{Addrs: []string{"h:1"}, Node: "n"}
	if err := good.complete(); err != nil || good.Prefix == "" || good.Limits.QueueItems == 0 || good.Timeout == 0 {
		t.Fatalf("%+v, %v", good, err)
	}
	for name, o := range map[string]Options{
		"no address":      {Node: "n"},
		"no node":         {Addrs: []string{"h:1"}},
		"two addresses":   {Addrs: []string{"h:1", "h:2"}, Node: "n"},
		"no master":       {Addrs: []string{"h:1"}, Node: "n", Mode: Sentinel},
		"a database":      {Addrs: []string{"h:1"}, Node: "n", Mode: Cluster, DB: 1},
		"unknown mode":    {Addrs: []string{"h:1"}, Node: "n", Mode: "x"},
		"a brace":         {Addrs: []string{"h:1"}, Node: "n", Prefix: "a{b}"},
		"a negative time": {Addrs: []string{"h:1"}, Node: "n", Timeout: -1},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

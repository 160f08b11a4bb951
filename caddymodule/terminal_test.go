package caddymodule

import (
	"bytes"
	"testing"
)

func TestTokenLine(t *testing.T) {
	for _, c := range []struct{ caddyfile, want string }{
		{"http://localhost:8680, http://127.0.0.1:8680 {\n bind 127.0.0.1\n hermes_edge\n}\n", "http://localhost:8680"},
		{":8680 {\n hermes_edge\n}\n", "http://localhost:8680"},
		{"http://chat.test {\n hermes_edge\n}\n", "http://chat.test"},
		{"chat.test {\n tls internal\n hermes_edge\n}\n", "https://chat.test"},
		{"http://*.chat.test:8680 {\n hermes_edge\n}\n", "http://localhost:8680"},
		{"http://:8680 {\n bind 192.0.2.7\n hermes_edge\n}\n", "http://192.0.2.7:8680"},
	} {
		isolate(t)
		s, err := provision(t, adaptConfig(t, "{\n skip_install_trust\n auto_https disable_redirects\n}\n"+c.caddyfile))
		if err != nil {
			t.Fatal(err)
		}
		var line bytes.Buffer
		s.app.writeTokenLine(&line, "he_x")
		if want := "\nopen " + c.want + "/chat-run/#token=he_x\n\n"; line.String() != want {
			t.Errorf("%q\ngot  %q\nwant %q", c.caddyfile, line.String(), want)
		}
	}
}

func TestLoopbackListeners(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8680": true, "localhost:8680": true, "[::1]:8680": true, "unix//run/x.sock": true,
		":8680": false, "0.0.0.0:80": false, "192.0.2.1:80": false, "chat.example.com:80": false,
	} {
		if got := isLoopbackListener(listen); got != want {
			t.Errorf("%s: %v", listen, got)
		}
	}
}

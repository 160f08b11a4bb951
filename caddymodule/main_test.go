package caddymodule

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Caddy's and its modules' own, started once in a process by imports.
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*Cache).maintainAssets"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
	)
}

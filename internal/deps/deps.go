//go:build deps

// Package deps anchors modules while the packages that import them are being written.
package deps

import (
	_ "github.com/caddyserver/caddy/v2/caddytest"
	_ "github.com/caddyserver/xcaddy"
	_ "github.com/gobwas/ws"
	_ "github.com/golang-jwt/jwt/v5"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/rivo/uniseg"
	_ "go.etcd.io/bbolt"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go.uber.org/zap/zaptest"
	_ "golang.org/x/sync/singleflight"
	_ "golang.org/x/time/rate"
)

// Package engineio is an Engine.IO protocol 4 server: sessions over WebSocket
// and HTTP long-polling, the upgrade from one to the other, heartbeats, limits.
//
// It is built on bare WebSocket frames and on the raw network connection. A
// WebSocket session costs one reader goroutine with a small buffer; nothing
// else runs while it is idle. Whoever sends only queues; a short-lived
// goroutine writes what has gathered in as few writes as possible. No call
// that sends ever waits for a client.
//
// The caller decides who may connect (and checks the Origin header) and hands
// every request of the Engine.IO path to [Server.Serve].
package engineio

// Package edge is the composition: it joins the Socket.IO server, authentication,
// the engine, the store and the gateway clients into one core, and handles the
// namespace /chat-run with connection state recovery.
//
// A [Core] exists once per place where data lives and outlives configurations:
// each configuration attaches its [Settings] as one generation and detaches it
// when it goes. Connections, runs and the store belong to the core, never to a
// configuration, so that a reload drops nothing.
package edge

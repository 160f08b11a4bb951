// Package gateway is a client of the Hermes Gateway API server (HTTP and SSE).
//
// It knows the upstream wire and nothing else: no engine, no chat-run events.
// One Client serves one configured gateway and is safe for concurrent use. A
// turn is one call of [Client.Responses], which posts once, streams typed
// events to an [EventHandler] and returns exactly one [Outcome].
//
// Every error a Client returns is an [*Error]: it carries a class with a stable
// label, and a one-line text that is safe to show to users (keys, credentials,
// home paths and internal addresses are removed, the length is bounded).
package gateway

// Package fakegateway is a scripted stand-in for the Hermes Gateway API server:
// health, models, capabilities, streamed responses and stored responses, in the
// wire shape of the real releases. Tests choose what a turn does by a Go
// [Script], or by keywords in the last user message (see [Keywords]); the
// command cmd/fakegateway serves the same for suites in other languages.
//
// It is a test tool: its control routes under /__control/ are open to everybody.
package fakegateway

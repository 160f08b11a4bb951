// Package chatrun is the chat-run protocol as data: events and payloads of the
// Socket.IO namespace /chat-run, content blocks, transcript rows and the fold of
// run events into what a resuming client sees. It does no I/O and keeps no state.
//
// Section numbers in comments refer to the protocol specification; lengths and
// cuts count UTF-16 code units, as the clients do.
package chatrun

// Command bench measures the edge beside its peers in one run and prints one
// table of medians, spread and ratios: idle sockets (b1), event echo (b3), the
// relay of a gateway's stream (b4) and the unpaced burst. The peers are plain
// Caddy's reverse_proxy for the streams and Node's socket.io for the sockets.
// README.md says how to read the table.
//
// It needs Linux (times and memory come from /proc), Go, and for the sockets
// Node with npm.
package main

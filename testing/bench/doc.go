// Command bench measures the edge beside its peers in one run and prints one
// table of medians, spread and ratios: idle sockets (b1), event echo (b3), the
// relay of a gateway's stream (b4), the unpaced burst, and with a Redis the relay
// with a durable log (b5), clients that all return at once (b7), a Redis that goes
// away (b11) and the growth of cost with nodes and sessions (grow). The peers are
// plain Caddy's reverse_proxy for the streams and Node's socket.io for the sockets.
// README.md says how to read the table.
//
// It needs Linux (times and memory come from /proc), Go, Node with npm for the
// sockets, and redis-server.
package main

// Package peer hands HTTP requests from one node of a cluster to another: a
// [Listener] takes them, a [Forwarder] sends them. It is general and knows nothing
// of what is served.
//
// # Why requests are forwarded
//
// A long-polling client sends each request to whatever node the load balancer
// picks, while its connection lives on one node. The alternative to forwarding is
// to refuse what belongs to another node, so that the client connects anew and
// recovers. README.md has both measured: refused, a client that polls never gets
// past its handshake behind a load balancer that alternates, and one that begins
// with polling, as clients do by default, neither; forwarded, both work.
//
// # What a node has to show
//
// Nodes share a secret and publish address and certificate fingerprint. The
// connection is TLS 1.3 with the certificate pinned, and each request carries a
// proof made of the secret, the name of the node it is meant for and that node's
// fingerprint. It is compared in constant time. A signature over the request with a
// time window would add nothing, since nobody else sees the request, and would fail
// between nodes whose clocks differ. The proof is worthless at any other node, so
// a false record of a node gains nothing.
//
// # Requests are sent once
//
// All requests travel as POST, whatever they were, because net/http sends a GET
// again when a connection ends before its answer: the second poll would be given
// what comes next, and the client would never miss what was lost with the first.
package peer

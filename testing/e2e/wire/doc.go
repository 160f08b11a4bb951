// Package wire is the client side of Engine.IO 4 and Socket.IO 5 for end-to-end
// tests: WebSocket, long-polling that may ask another node with each request, the
// change from the one to the other, and the namespace of the chat with connection
// state recovery. It does not reconnect by itself.
package wire

package engineio

// Observer receives what metrics need. Its methods are called from hot paths,
// concurrently, and must not block.
type Observer interface {
	// ConnectionOpened: a handshake was accepted on this transport.
	ConnectionOpened(t Transport)
	// ConnectionUpgraded: a polling connection became a WebSocket.
	ConnectionUpgraded()
	// ConnectionClosed: the connection ended on this transport.
	ConnectionClosed(t Transport, r Reason)
	// PacketsReceived and PacketsSent count Engine.IO packets and their bytes.
	PacketsReceived(packets, bytes int)
	PacketsSent(packets, bytes int)
	// SlowConsumer: something was done about a client that does not read.
	SlowConsumer(a SlowAction)
}

// SlowAction is what was done about a slow client.
type SlowAction string

// The actions.
const (
	SlowRefused SlowAction = "refused" // a message was not queued
	SlowClosed  SlowAction = "closed"  // the connection was closed
)

type nopObserver struct{}

func (nopObserver) ConnectionOpened(Transport)         {}
func (nopObserver) ConnectionUpgraded()                {}
func (nopObserver) ConnectionClosed(Transport, Reason) {}
func (nopObserver) PacketsReceived(int, int)           {}
func (nopObserver) PacketsSent(int, int)               {}
func (nopObserver) SlowConsumer(SlowAction)            {}

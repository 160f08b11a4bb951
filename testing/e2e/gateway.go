package e2e

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

// Gateway is the scripted gateway on a port of its own, in this process.
type Gateway struct {
	*fakegateway.Server
	// URL is where it listens; its control routes are under /__control/.
	URL string

	server *http.Server
	served chan struct{}
}

// NewGateway starts a scripted gateway that demands the key, if there is one.
func NewGateway(key string) (*Gateway, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scripted gateway: %w", err)
	}
	fake := fakegateway.New(fakegateway.Options{Key: key})
	g := &Gateway{
		Server: fake,
		URL:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second},
		served: make(chan struct{}),
	}
	go func() {
		defer close(g.served)
		// It always ends with ErrServerClosed, by Close.
		_ = g.server.Serve(listener)
	}()
	return g, nil
}

// Close ends the gateway and every stream of it.
func (g *Gateway) Close() {
	_ = g.server.Close()
	<-g.served
}

// StartGateway runs a scripted gateway until the end of the test.
func StartGateway(t testing.TB, key string) *Gateway {
	t.Helper()
	g, err := NewGateway(key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

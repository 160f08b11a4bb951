// Command fakegateway serves a scripted Hermes Gateway for tests and
// benchmarks. See package fakegateway for keywords and control routes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fakegateway:", err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("addr", "127.0.0.1:8642", "address to listen on; port 0 takes a free one")
	key := flag.String("key", "", "bearer key to demand, none if empty")
	class := flag.String("class", "D", "release class: old, A0, A, B, C, D or E")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("listen (is another gateway on that port?): %w", err)
	}
	fake := fakegateway.New(fakegateway.Options{Key: *key, Class: *class})
	server := &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second}
	// The line tells whoever started this which port it got.
	fmt.Printf("listening on http://%s\n", listener.Addr())

	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	<-failed
	return nil
}

// Command protocolfixture is the server that the public Engine.IO and
// Socket.IO protocol suites expect on port 3000.
//
// With -protocol engine every message on /engine.io/ is sent back. With
// -protocol socket, on /socket.io/, the namespaces / and /custom emit "auth"
// with the CONNECT payload, answer "message" with "message-back" and
// acknowledge "message-with-ack" with its arguments.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/hermes-edge/hermes-edge/adapter/socketio"
	"github.com/hermes-edge/hermes-edge/adapter/socketio/engineio"
)

type flags struct {
	protocol                                  string
	port                                      int
	pingInterval, pingTimeout, connectTimeout time.Duration
	maxPayload                                int64
	debug                                     bool
}

// server is what both protocols have in common.
type server interface {
	Serve(w http.ResponseWriter, r *http.Request, a engineio.Admission)
	Shutdown(ctx context.Context) error
}

func main() {
	var f flags
	flag.StringVar(&f.protocol, "protocol", "socket", "engine or socket")
	flag.IntVar(&f.port, "port", 3000, "port to listen on, 0 picks one")
	flag.DurationVar(&f.pingInterval, "ping-interval", 300*time.Millisecond, "time between pings")
	flag.DurationVar(&f.pingTimeout, "ping-timeout", 200*time.Millisecond, "time for the answer to a ping")
	flag.DurationVar(&f.connectTimeout, "connect-timeout", time.Second, "time to join a namespace")
	flag.Int64Var(&f.maxPayload, "max-payload", 1_000_000, "largest message in bytes")
	flag.BoolVar(&f.debug, "debug", false, "serve profiles under /debug/pprof/")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, f); err != nil {
		fmt.Fprintln(os.Stderr, "protocolfixture:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, f flags) error {
	path, srv, err := newServer(f)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // the suites also run in a browser
		srv.Serve(w, r, engineio.Admission{})
	})
	if f.debug {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Printf("listening %s %s\n", ln.Addr(), path)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- hs.Serve(ln) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(srv.Shutdown(bounded), hs.Shutdown(bounded))
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func newServer(f flags) (string, server, error) {
	switch f.protocol {
	case "engine":
		return "/engine.io/", engineio.NewServer(engineio.Options{
			PingInterval: f.pingInterval, PingTimeout: f.pingTimeout, MaxPayload: f.maxPayload,
		}, func(c *engineio.Conn) engineio.Receiver { return echo{c} }), nil
	case "socket":
		s := socketio.NewServer(socketio.Options{
			PingInterval: f.pingInterval, PingTimeout: f.pingTimeout,
			ConnectTimeout: f.connectTimeout, MaxPayload: f.maxPayload,
		})
		s.Handle("/", suite{})
		s.Handle("/custom", suite{})
		return "/socket.io/", s, nil
	}
	return "", nil, fmt.Errorf("-protocol %q: must be engine or socket", f.protocol)
}

// echo sends every Engine.IO message back.
type echo struct{ c *engineio.Conn }

func (e echo) Message(data []byte, binary bool) {
	_ = e.c.Send(engineio.Message{Data: data, Binary: binary}) // the client sees what is missing
}
func (echo) Ping()                 {}
func (echo) Pong()                 {}
func (echo) Close(engineio.Reason) {}

// suite behaves as the Socket.IO protocol suite expects.
type suite struct{}

func (suite) Connect(_ context.Context, s *socketio.Socket, auth json.RawMessage) (socketio.Welcome, error) {
	if auth == nil {
		auth = json.RawMessage(`{}`)
	}
	s.SetData(auth)
	return socketio.Welcome{}, nil
}

func (suite) Connected(s *socketio.Socket) { _ = s.Emit("auth", s.Data()) }

func (suite) Event(s *socketio.Socket, e socketio.Event) {
	switch {
	case e.Name == "message":
		_ = s.Emit("message-back", e.Values()...)
	case e.Name == "message-with-ack" && e.Ack != nil:
		_ = e.Ack(e.Values()...)
	}
}

func (suite) Disconnected(*socketio.Socket, socketio.Reason) {}

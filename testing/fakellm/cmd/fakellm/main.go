// Command fakellm serves the scripted model of package fakellm, to try a real hermes-agent by hand.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/fakellm"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:9911", "address to listen on")
	pace := flag.Duration("pace", time.Second, "time between the chunks of a [[slow]] answer")
	flag.Parse()

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatalf("fakellm: %v", err)
	}
	fmt.Printf("fakellm: base URL http://%s/v1, recorded requests at http://%s/__requests\n", listener.Addr(), listener.Addr())
	server := &http.Server{Handler: &fakellm.Server{Pace: *pace}, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

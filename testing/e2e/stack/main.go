// Command stack runs a scripted gateway and an edge in front of it for suites in
// other languages. It prints one line of JSON, {"edge": URL, "gateway": URL}, when
// both serve, and stops both when its standard input ends. A line "crash" on the
// standard input kills the edge and starts it again on the same data, which prints
// the line of JSON again. Trouble of the edge (a data race, a panic, an unclean
// end) makes it print the log and exit with 1.
//
// It is started inside the repository, for instance
//
//	go run ./testing/e2e/stack -user alice=secret-of-alice:default,work
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
	"github.com/hermes-edge/hermes-edge/testing/fakegateway"
)

const (
	gatewayKey   = "scripted-gateway-key"
	startTimeout = 2 * time.Minute
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run() error {
	var config e2e.Config
	flag.Func("user", "`name=token[:profile,…]` of a user; repeatable", func(value string) error {
		user, err := parseUser(value)
		config.Users = append(config.Users, user)
		return err
	})
	flag.Func("option", "further `line` of the hermes block; repeatable", func(value string) error {
		config.Options = append(config.Options, value)
		return nil
	})
	profiles := flag.String("profiles", "default", "profiles that have the gateway, separated by commas")
	flag.Parse()

	gateway := httptest.NewServer(fakegateway.New(fakegateway.Options{Key: gatewayKey}))
	defer func() {
		gateway.CloseClientConnections()
		gateway.Close()
	}()
	config.Gateways = make(map[string]e2e.Upstream)
	for profile := range strings.SplitSeq(*profiles, ",") {
		config.Gateways[profile] = e2e.Upstream{URL: gateway.URL, Key: gatewayKey}
	}
	return serve(config, gateway.URL)
}

func parseUser(value string) (e2e.User, error) {
	name, rest, ok := strings.Cut(value, "=")
	token, profiles, _ := strings.Cut(rest, ":")
	if !ok || name == "" || token == "" {
		return e2e.User{}, errors.New("want name=token or name=token:profile,profile")
	}
	user := e2e.User{Name: name, Token: token}
	if profiles != "" {
		user.Profiles = strings.Split(profiles, ",")
	}
	return user, nil
}

func serve(config e2e.Config, gatewayURL string) error {
	folder, err := os.MkdirTemp("", "hermes-edge-stack-")
	if err != nil {
		return fmt.Errorf("make a folder for the edge: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	edge, err := e2e.NewEdge(folder, config)
	if err != nil {
		return err
	}
	err = obey(edge, gatewayURL, os.Stdin)
	err = errors.Join(err, edge.Stop())
	if faults := edge.Faults(); err != nil || len(faults) > 0 {
		return errors.Join(err, fmt.Errorf("faults of the edge: %q\n%s", faults, edge.Log()))
	}
	return nil
}

// obey runs the edge until the commands end.
func obey(edge *e2e.Edge, gatewayURL string, commands io.Reader) error {
	if err := start(edge, gatewayURL); err != nil {
		return err
	}
	lines := bufio.NewScanner(commands)
	for lines.Scan() {
		if lines.Text() != "crash" {
			return fmt.Errorf("unknown command %q", lines.Text())
		}
		edge.Kill()
		if err := start(edge, gatewayURL); err != nil {
			return err
		}
	}
	return lines.Err()
}

func start(edge *e2e.Edge, gatewayURL string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := edge.Start(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{"edge": edge.URL, "gateway": gatewayURL})
}

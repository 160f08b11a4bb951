package caddymodule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/hermes-edge/hermes-edge/adapter/auth"
)

const probeTimeout = 2 * time.Second

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "hermes",
		Usage: "token [--rotate]",
		Short: "Helps to run Hermes Edge",
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(tokenCommand())
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		},
	})
}

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token [--rotate] [--address <admin address>] [--config <path> [--adapter <name>]]",
		Short: "Shows the access token that signs in where no auth is configured",
		Long: `
Shows the access token that was made at the first start, because a hermes_edge
handler has no auth of its own. The running process is asked over the admin
endpoint; if there is none, the file in the data directory is read. Nodes that
share a Redis have one token, which is kept there: a running one shows it.

--rotate replaces the token. Connections that were admitted by the old one are
closed. This needs the running process.
`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Bool("rotate", false, "Replace the token")
	cmd.Flags().String("address", "", "Address of the admin endpoint (default: the one of the configuration)")
	cmd.Flags().StringP("config", "c", "", "Configuration file")
	cmd.Flags().StringP("adapter", "a", "", "Name of the config adapter, if the file is not JSON")
	cmd.RunE = caddycmd.WrapCommandFuncForCobra(runToken)
	return cmd
}

func runToken(fl caddycmd.Flags) (int, error) {
	token, err := findToken(fl.String("address"), fl.String("config"), fl.String("adapter"), fl.Bool("rotate"))
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	fmt.Println(token)
	return caddy.ExitCodeSuccess, nil
}

func findToken(address, configFile, adapter string, rotate bool) (string, error) {
	config, address, err := configAndAddress(address, configFile, adapter)
	if err != nil {
		return "", err
	}
	switch err := probe(address); {
	case err == nil:
		return askProcess(address, rotate)
	case rotate:
		return "", fmt.Errorf("no process answers on the admin endpoint %s; start it, then rotate: %w", address, err)
	}
	return tokenOfFile(config)
}

// configAndAddress loads the configuration file, if there is one, and finds the
// admin endpoint.
func configAndAddress(address, file, adapter string) (config []byte, admin string, err error) {
	if file == "" {
		if _, err := os.Stat("Caddyfile"); err == nil && adapter == "" {
			file, adapter = "Caddyfile", "caddyfile"
		}
	}
	if file != "" {
		if config, _, _, err = caddycmd.LoadConfig(file, adapter); err != nil {
			return nil, "", err
		}
	}
	admin, err = caddycmd.DetermineAdminAPIAddress(address, config, file, adapter)
	return config, admin, err
}

// probe reports whether something listens on the admin endpoint.
func probe(address string) error {
	parsed, err := caddy.ParseNetworkAddress(address)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout(parsed.Network, parsed.JoinHostPort(0), probeTimeout)
	if err != nil {
		return err
	}
	return conn.Close()
}

func askProcess(address string, rotate bool) (string, error) {
	method, uri := http.MethodGet, adminToken
	if rotate {
		method, uri = http.MethodPost, adminRotate
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, uri, nil, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var body tokenAnswer
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return "", fmt.Errorf("the process on %s gave no token: %w", address, err)
	}
	return body.Token, nil
}

// tokenOfFile reads the token from the data directory that a configuration names.
func tokenOfFile(config []byte) (string, error) {
	var parsed struct {
		Apps struct {
			Hermes App `json:"hermes"`
		} `json:"apps"`
	}
	if len(config) > 0 {
		if err := json.Unmarshal(config, &parsed); err != nil {
			return "", fmt.Errorf("read the configuration: %w", err)
		}
	}
	if parsed.Apps.Hermes.Redis != nil {
		return "", errors.New("the access token is kept in Redis: start this node, or ask on another one, then try again")
	}
	builder := settingsBuilder{repl: caddy.NewReplacer(), env: environment{getenv: os.Getenv, logger: zap.NewNop()}}
	dir, err := builder.dataDir(parsed.Apps.Hermes.DataDir)
	if err != nil {
		return "", err
	}
	token, err := auth.ReadAccessToken(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("there is no access token in %s: it is made at the first start of a configuration with a hermes_edge that has no auth", dir)
	}
	return token, err
}

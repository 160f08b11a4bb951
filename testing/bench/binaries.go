package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// edgeTags are the size tags of a release build.
const edgeTags = "nobadger,nomysql,nopgx"

// binaries are the programs under measurement, all built afresh into one
// directory, which also holds what the servers write.
type binaries struct {
	dir                   string
	edge, gateway, socket string
	node                  string // directory of server.js
}

// build makes what the scenarios need. Flags for the Go tool from outside, the
// race detector for one, would spoil the figures.
func build(ctx context.Context, dir, module string, needNode bool) (*binaries, error) {
	b := &binaries{dir: dir}
	for _, program := range []struct {
		path *string
		name string
	}{
		{&b.edge, "caddymodule/hermes-edge"},
		{&b.gateway, "testing/fakegateway/cmd/fakegateway"},
		{&b.socket, "testing/protocolfixture"},
	} {
		*program.path = filepath.Join(dir, filepath.Base(program.name))
		cmd := exec.CommandContext(ctx, "go", "build", "-tags", edgeTags, "-o", *program.path, "./"+program.name)
		cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
		if err := runIn(cmd, module); err != nil {
			return nil, fmt.Errorf("build %s: %w", program.name, err)
		}
	}
	if !needNode {
		return b, nil
	}
	return b, b.installPeer(ctx, filepath.Join(module, "testing", "bench", "node"))
}

// installPeer copies the Node server beside the binaries and installs what its
// lock file says.
func (b *binaries) installPeer(ctx context.Context, source string) error {
	b.node = filepath.Join(b.dir, "node")
	if err := os.CopyFS(b.node, os.DirFS(source)); err != nil {
		return fmt.Errorf("copy the Node server: %w", err)
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
	if err := runIn(npm, b.node); err != nil {
		return fmt.Errorf("b1, b3 and b7 compare with Node's socket.io and need Node 20 with npm (-only b4,burst,b5,b11,grow goes without): %w", err)
	}
	return nil
}

func runIn(cmd *exec.Cmd, dir string) error {
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// moduleRoot is the directory of the go.mod that this command is part of.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	if _, err := os.Stat(filepath.Join(root, "testing", "bench", "doc.go")); err != nil {
		return "", fmt.Errorf("run the benchmark inside its repository: %w", err)
	}
	return root, nil
}

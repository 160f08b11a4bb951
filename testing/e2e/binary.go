package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// BinaryEnv names a ready-made edge binary; without it one is built.
	BinaryEnv = "HERMES_EDGE_BINARY"

	buildTags    = "nobadger,nomysql,nopgx"
	buildTimeout = 15 * time.Minute
)

var build = sync.OnceValues(func() (string, error) {
	if named := os.Getenv(BinaryEnv); named != "" {
		return filepath.Abs(named)
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	binary := filepath.Join(root, "bin", "hermes-edge-e2e")
	command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-tags="+buildTags, "-o", binary, "./caddymodule/hermes-edge")
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the edge: %w\n%s", err, strings.TrimSpace(string(output)))
	}
	return binary, nil
})

// Binary returns the edge program: the one that BinaryEnv names, else one that is
// built once a process. GOFLAGS decides whether that has the race detector.
func Binary() (string, error) { return build() }

func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no go.mod above the working directory; run the suite inside the repository")
		}
		folder = parent
	}
}

package hermesagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	cacheEnv  = "HERMES_EDGE_CACHE"
	pythonEnv = "HERMES_EDGE_PYTHON"
	marker    = "installed"
	maxTail   = 2000
)

// pythonCheck prints nothing and fails unless the interpreter can make the virtual environment.
const pythonCheck = "import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))"

// Install returns the `hermes` program of a release. The first call makes a virtual environment in the
// cache folder with pip; later calls, of other processes too, find it there. The cache folder is
// $HERMES_EDGE_CACHE, else `.cache` beside go.mod. HERMES_EDGE_PYTHON names the interpreter to use.
func Install(ctx context.Context, version string) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "hermes-agent", version)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder of hermes-agent: %w", err)
	}
	unlock, err := lock(filepath.Join(folder, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	program := filepath.Join(folder, "venv", "bin", "hermes")
	if _, err := os.Stat(filepath.Join(folder, marker)); err == nil {
		return program, nil
	}
	if err := build(ctx, filepath.Join(folder, "venv"), version); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, marker), []byte(version+"\n"), 0o644); err != nil {
		return "", fmt.Errorf("mark hermes-agent %s as installed: %w", version, err)
	}
	return program, nil
}

// build makes the environment. The extra "sms" is the smallest that brings the aiohttp which the API
// server needs, in the version that the release pins (spec gateway 8.1).
func build(ctx context.Context, venv, version string) error {
	python, err := findPython(ctx)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(venv); err != nil {
		return fmt.Errorf("remove a half made environment: %w", err)
	}
	if err := command(ctx, python, "-m", "venv", venv); err != nil {
		return err
	}
	return command(ctx, filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--no-input",
		"--disable-pip-version-check", "hermes-agent[sms]=="+version)
}

func findPython(ctx context.Context) (string, error) {
	candidates := []string{"python3.11", "python3.12", "python3.13", "python3"}
	if named := os.Getenv(pythonEnv); named != "" {
		candidates = []string{named}
	}
	for _, candidate := range candidates {
		path, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		if exec.CommandContext(ctx, path, "-c", pythonCheck).Run() == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python 3.11 to 3.13 with venv among %s; install one or set %s", strings.Join(candidates, ", "), pythonEnv)
}

func command(ctx context.Context, name string, args ...string) error {
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(output))
	}
	return nil
}

func tail(output []byte) string {
	return strings.TrimSpace(string(output[max(0, len(output)-maxTail):]))
}

func cacheFolder() (string, error) {
	if named := os.Getenv(cacheEnv); named != "" {
		return filepath.Abs(named)
	}
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, ".cache"), nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no go.mod above the working directory; set " + cacheEnv)
		}
		folder = parent
	}
}

// lock keeps test processes from installing the same release at the same time. The kernel drops the
// lock with the process, so a killed installation blocks nobody. The wait is bounded by the holder's
// own context.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock of hermes-agent: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const config = "../../xcaddy.json"

// The file decodes, builds the Caddy that the tests run with, and its modules
// resolve. The build itself is too long for a test.
func TestConfigResolves(t *testing.T) {
	builder, err := load(config)
	if err != nil {
		t.Fatal(err)
	}
	if len(builder.Plugins) != 1 || len(builder.Replacements) != 1 {
		t.Fatalf("want one plugin and one replacement: %+v", builder)
	}
	root := string(builder.Replacements[0].New)
	if !filepath.IsAbs(root) {
		t.Fatalf("replacement %q is not absolute", root)
	}
	if got := goList(t, root, "list", "-m"); got != string(builder.Replacements[0].Old) {
		t.Errorf("the replacement is module %q, want %q", got, builder.Replacements[0].Old)
	}
	if got := goList(t, root, "list", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2"); got != builder.CaddyVersion {
		t.Errorf("go.mod has Caddy %s, xcaddy.json %s", got, builder.CaddyVersion)
	}
	for _, plugin := range builder.Plugins {
		if got := goList(t, root, "list", plugin.PackagePath); got != plugin.PackagePath {
			t.Errorf("plugin %q is package %q", plugin.PackagePath, got)
		}
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "xcaddy.json")
	if err := os.WriteFile(file, []byte(`{"caddy_versoin": "v2.11.9"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := load(file); err == nil || !strings.Contains(err.Error(), "caddy_versoin") {
		t.Fatalf("got %v", err)
	}
}

func goList(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

//go:build unix

package scaleout

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-edge/hermes-edge/testing/e2e"
)

var caddyfiles = regexp.MustCompile("(?s)```caddyfile\n(.*?)```")

// Every complete configuration in the README is one that the binary accepts.
func TestConfigurationsOfTheReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := e2e.Binary()
	if err != nil {
		t.Fatal(err)
	}
	folder, shared := t.TempDir(), 0
	secret := filepath.Join(folder, "secret")
	if err := os.WriteFile(secret, []byte("secret-0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, found := range caddyfiles.FindAllStringSubmatch(string(readme), -1) {
		text := found[1]
		if strings.HasPrefix(text, "jwt ") {
			text = ":8680 {\nhermes_edge {\nauth {\n" + text + "}\n}\n}\n"
		}
		if strings.Contains(text, "redis") || strings.Contains(text, "lb_policy") {
			shared++
		}
		text = strings.ReplaceAll(text, "/run/secrets/work", secret)
		file := filepath.Join(folder, "Caddyfile")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		command := exec.CommandContext(ctx, binary, "validate", "--config", file, "--adapter", "caddyfile")
		command.Env = []string{
			"HOME=" + folder, "XDG_DATA_HOME=" + folder, "XDG_CONFIG_HOME=" + folder, "HOSTNAME=web1", "POD_IP=10.0.0.5",
			"REDIS_PASSWORD=secret", "API_SERVER_KEY=secret-0123456789", "AUTH_JWT_SECRET=0123456789abcdef0123456789abcdef",
			"ALICE_TOKEN=secret-of-alice-0123456789", "BOB_TOKEN=secret-of-bob-0123456789",
		}
		output, err := command.CombinedOutput()
		cancel()
		if err != nil {
			t.Errorf("not accepted: %v\n%s\n%s", err, text, output)
		}
	}
	if shared != 2 {
		t.Errorf("%d configurations for several nodes", shared)
	}
}

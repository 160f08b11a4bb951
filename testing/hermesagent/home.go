package hermesagent

import (
	"fmt"
	"os"
	"path/filepath"
)

// Key is the API key of every gateway that this package starts. Newer releases refuse a shorter one.
const Key = "test-0123456789abcdef0123456789"

// configText is the config.yaml of spec gateway 8.2: no network access but the model, a named set of
// tools, and questions that nobody answers end soon.
const configText = `model:
  default: scripted-model
  provider: custom
  base_url: %q
  api_key: sk-local-test
  context_length: 131072
platform_toolsets:
  api_server: [terminal, file, todo]
approvals:
  mode: manual
  timeout: 20
  gateway_timeout: 20
terminal:
  backend: local
  cwd: %q
security:
  tirith_enabled: false
  allow_lazy_installs: false
`

const envText = `API_SERVER_ENABLED=true
API_SERVER_KEY=%s
API_SERVER_PORT=%d
`

// writeHome fills a hermes home: the model, the tools' working folder, and the API server's port and key.
func writeHome(home, modelURL, scratch string, port int) error {
	files := map[string]string{
		"config.yaml": fmt.Sprintf(configText, modelURL, scratch),
		".env":        fmt.Sprintf(envText, Key, port),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("write the hermes home: %w", err)
		}
	}
	return nil
}

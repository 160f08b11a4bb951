package hermesagent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func respond(t *testing.T, gateway *Gateway, key string, body map[string]any) (int, string) {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway.BaseURL+"/v1/responses", strings.NewReader(string(encoded)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// streamed joins the text deltas of a stream and lists its other event names.
func streamed(t *testing.T, stream string) (text string, events []string) {
	t.Helper()
	for line := range strings.SplitSeq(stream, "\n") {
		if name, ok := strings.CutPrefix(line, "event: "); ok && name != "response.output_text.delta" {
			events = append(events, name)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event struct{ Type, Delta string }
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if event.Type == "response.output_text.delta" {
			text += event.Delta
		}
	}
	return text, events
}

func TestTheRealGatewayAnswersFromTheScriptedModel(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version, func(t *testing.T) {
			gateway := Start(t, Config{Version: version})
			stream := func(input string, history ...map[string]string) (string, []string) {
				status, answer := respond(t, gateway, Key, map[string]any{"input": input, "stream": true, "store": false, "conversation_history": history})
				if status != http.StatusOK {
					t.Fatalf("%s: status %d, %s", input, status, answer)
				}
				return streamed(t, answer)
			}

			if status, answer := respond(t, gateway, "wrong", map[string]any{"input": "hi"}); status != http.StatusUnauthorized {
				t.Errorf("a wrong key: status %d, %s", status, answer)
			}
			text, events := stream("hello")
			if text != "You said: hello" || events[0] != "response.created" || events[len(events)-1] != "response.completed" {
				t.Errorf("plain text: %q, %v", text, events)
			}
			text, _ = stream("[[tool echo from-the-terminal]]")
			if !strings.HasPrefix(text, "Let me look.") || !strings.Contains(text, "from-the-terminal") {
				t.Errorf("a tool call: %q", text)
			}
			text, _ = stream("[[remember]]", map[string]string{"role": "user", "content": "My name is Ann"}, map[string]string{"role": "assistant", "content": "Hello Ann"})
			if text != "I remember: My name is Ann" {
				t.Errorf("a second turn: %q", text)
			}
			requests := gateway.Model.Requests()
			if len(requests) < 4 || !requests[0].Stream {
				t.Errorf("the model saw %+v", requests)
			}
		})
	}
}

func TestKillEndsTheGatewayAtOnce(t *testing.T) {
	gateway := Start(t, Config{Version: Newest})
	gateway.Kill()
	gateway.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	if err := health(t.Context(), client, gateway.BaseURL); err == nil {
		t.Error("the gateway still answers")
	}
}

func TestTheCacheFolderIsBesideTheModuleUnlessNamed(t *testing.T) {
	folder, err := cacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(folder), "go.mod")); err != nil || filepath.Base(folder) != ".cache" {
		t.Errorf("got %s", folder)
	}
	named := t.TempDir()
	t.Setenv(cacheEnv, named)
	if folder, err := cacheFolder(); err != nil || folder != named {
		t.Errorf("got %s, %v", folder, err)
	}
}

func TestAMissingPythonIsNamed(t *testing.T) {
	t.Setenv(cacheEnv, t.TempDir())
	t.Setenv(pythonEnv, filepath.Join(t.TempDir(), "no-python"))
	_, err := Install(t.Context(), Newest)
	if err == nil || !strings.Contains(err.Error(), pythonEnv) {
		t.Errorf("got %v", err)
	}
}

func TestAnOldPythonIsRefused(t *testing.T) {
	old := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(old, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(pythonEnv, old)
	if found, err := findPython(t.Context()); err == nil {
		t.Errorf("took %s", found)
	}
}

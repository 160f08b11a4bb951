//go:build unix

package scaleout

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
)

// inputOf is the text that a recorded turn asks to be answered.
func inputOf(body string) string {
	var turn struct{ Input json.RawMessage }
	if err := json.Unmarshal([]byte(body), &turn); err != nil {
		return ""
	}
	var text string
	if json.Unmarshal(turn.Input, &text) == nil {
		return text
	}
	var items []struct{ Content json.RawMessage }
	if json.Unmarshal(turn.Input, &items) != nil || len(items) == 0 {
		return ""
	}
	last := items[len(items)-1].Content
	if json.Unmarshal(last, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	if json.Unmarshal(last, &parts) != nil || len(parts) == 0 {
		return ""
	}
	return parts[0].Text
}

// get asks for a URL, with a token unless it is empty.
func get(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

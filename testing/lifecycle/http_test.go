package lifecycle

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/quic-go/quic-go/http3"
)

// CAD-02: on a site with TLS polling works over each version of HTTP, and
// WebSocket over HTTP/1.1 on the same port.
func TestEachVersionOfHTTP(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	secure := freePort(t)
	s.start(site("http://127.0.0.1:1", "", users(aliceRule), "skip_install_trust\n auto_https disable_redirects") +
		fmt.Sprintf("https://localhost:%d {\n bind 127.0.0.1\n tls internal\n %s\n}\n", secure, users(aliceRule)))
	trust := func() *tls.Config { return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"} }
	base := fmt.Sprintf("https://localhost:%d/socket.io/?EIO=4&transport=", secure)

	h1 := &http.Transport{TLSClientConfig: trust(), Protocols: new(http.Protocols)}
	h1.Protocols.SetHTTP1(true)
	h2 := &http.Transport{TLSClientConfig: trust(), Protocols: new(http.Protocols)}
	h2.Protocols.SetHTTP2(true)
	h3 := &http3.Transport{TLSClientConfig: trust()}
	defer h1.CloseIdleConnections()
	defer h2.CloseIdleConnections()
	defer h3.Close()
	s.eventually("the certificate is there", func() bool {
		conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", secure), trust())
		if err != nil {
			return false
		}
		conn.Close()
		return true
	})
	for major, transport := range map[int]http.RoundTripper{1: h1, 2: h2, 3: h3} {
		pollOnce(t, major, &http.Client{Transport: transport, Timeout: patience}, base+"polling")
	}

	dialer := ws.Dialer{TLSConfig: trust()}
	conn, early, _, err := dialer.Dial(t.Context(), "wss"+strings.TrimPrefix(base, "https")+"websocket")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var stream io.ReadWriter = conn
	if early != nil {
		stream = struct {
			io.Reader
			io.Writer
		}{early, conn}
	}
	if open, err := wsutil.ReadServerText(stream); err != nil || !strings.HasPrefix(string(open), "0{") {
		t.Errorf("WebSocket: %q %v", open, err)
	}
	s.terminate()
}

// pollOnce opens a connection, signs in and reads the reply.
func pollOnce(t *testing.T, major int, client *http.Client, address string) {
	t.Helper()
	body := func(resp *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("HTTP/%d: %v", major, err)
		}
		defer resp.Body.Close()
		content, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != major {
			t.Fatalf("HTTP/%d: %s %s %q %v", major, resp.Proto, resp.Status, content, err)
		}
		return string(content)
	}
	_, rest, _ := strings.Cut(body(client.Get(address)), `"sid":"`)
	sid, _, _ := strings.Cut(rest, `"`)
	session := address + "&sid=" + sid
	body(client.Post(session, "text/plain", strings.NewReader(`40/chat-run,{"token":"`+aliceToken+`"}`)))
	if reply := body(client.Get(session)); !strings.Contains(reply, "0/chat-run,") {
		t.Errorf("HTTP/%d: %q", major, reply)
	}
}

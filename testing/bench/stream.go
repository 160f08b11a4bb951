package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	streamBuffer  = 4096
	gatewayKey    = "bench-gateway-key"
	chatNamespace = "/chat-run"
	chatEvent     = "42" + chatNamespace + `,["`
)

// client receives runs from one server. It serves one goroutine.
type client interface {
	// start asks for a run of n deltas at a rate (0: unpaced).
	start(session string, n, rate int) error
	// finish reads the run to its end.
	finish(d *deltaReader) error
	abandon()
	SetDeadline(at time.Time) error
}

// command is what the fake gateway understands (see its keywords).
func command(n, rate int) string {
	return "[[load " + strconv.Itoa(n) + " " + strconv.Itoa(rate) + "]]"
}

// streamClient is a client of the gateway behind a proxy: one request a run.
type streamClient struct {
	net.Conn
	addr string
	r    *bufio.Reader
}

func dialStream(ctx context.Context, t *target, _ int) (client, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	return &streamClient{Conn: nc, addr: t.addr, r: bufio.NewReaderSize(nc, streamBuffer)}, nil
}

func (c *streamClient) start(_ string, n, rate int) error {
	body := fmt.Sprintf(`{"model":"hermes-agent","input":%q,"stream":true,"store":false}`, command(n, rate))
	_, err := fmt.Fprintf(c, "POST /v1/responses HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.addr, gatewayKey, len(body), body)
	return err
}

func (c *streamClient) abandon() { reset(c.Conn) }

func (c *streamClient) finish(d *deltaReader) error {
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 400)) // only to tell more
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	completed, err := readStream(bufio.NewReaderSize(response.Body, streamBuffer), d)
	if err != nil {
		return err
	}
	if !completed {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// readStream reads server-sent events to the end of the stream, which leaves the
// connection ready for the next request.
func readStream(r *bufio.Reader, d *deltaReader) (completed bool, err error) {
	delta := false
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case err == io.EOF:
			return completed, nil
		case err != nil:
			return completed, err
		case bytes.HasPrefix(line, []byte("event: ")):
			event := bytes.TrimSpace(line[len("event: "):])
			delta = string(event) == "response.output_text.delta"
			completed = completed || string(event) == "response.completed"
		case delta && bytes.HasPrefix(line, []byte("data: ")):
			text, found := quoted(line, `"delta": "`)
			if !found {
				return completed, fmt.Errorf("delta without a text: %.200q", line)
			}
			if err := d.take(text); err != nil {
				return completed, err
			}
		}
	}
}

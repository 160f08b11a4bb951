package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	maxRetryAfter = 10 * time.Minute

	lostText = "Response stream ended without a terminal event"

	// A gateway that refuses to start says so in its own log only (T27).
	notListening = "Is it running on that port? Without an API_SERVER_KEY of 16 or more characters, or without aiohttp, it does not listen"
)

// transportError classifies a round trip that brought no reply.
func (c *Client) transportError(ctx context.Context, err error, connected bool) *Error {
	if e := c.endedBy(ctx, err); e != nil {
		e.Sent = connected
		return e
	}
	if !connected {
		return &Error{Class: ClassUnreachable, Text: unreachableText(err), cause: err}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &Error{Class: ClassSilent, Text: fmt.Sprintf("The Hermes gateway did not answer within %s", c.cfg.HeaderTimeout), Sent: true, cause: err}
	}
	if isNotHTTP(err) {
		return &Error{Class: ClassNotAGateway, Text: "What answers at the gateway address does not speak HTTP; check the address, port and http or https", Sent: true, cause: err}
	}
	return &Error{Class: ClassLost, Text: "The connection to the Hermes gateway broke before it answered; the turn may have been started", Sent: true, cause: err}
}

func isNotHTTP(err error) bool {
	return strings.Contains(err.Error(), "malformed HTTP")
}

// endedBy classifies what our own side ended: timers and the caller.
func (c *Client) endedBy(ctx context.Context, err error) *Error {
	if ctx.Err() == nil {
		return nil
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errSilent):
		return &Error{Class: ClassSilent, Text: fmt.Sprintf("The Hermes gateway sent nothing for %s", c.cfg.ReadTimeout), cause: cause}
	case errors.Is(cause, errNoProgress):
		return &Error{Class: ClassNoProgress, Text: fmt.Sprintf("The Hermes gateway sent only keep-alives for %s", c.cfg.ProgressTimeout), cause: cause}
	case errors.Is(cause, errCallTimeout):
		return &Error{Class: ClassSilent, Text: "The Hermes gateway did not answer in time", cause: cause}
	default:
		return &Error{Class: ClassCanceled, Text: "The turn was cancelled", cause: errors.Join(cause, err)}
	}
}

func unreachableText(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Hermes gateway unreachable: connection refused. " + notListening
	case errors.As(err, &name):
		return "Hermes gateway unreachable: its host name does not resolve"
	case errors.As(err, &certificate):
		return "Hermes gateway unreachable: its TLS certificate is not trusted (tls_ca)"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "Hermes gateway unreachable: no connection within the connect timeout"
	default:
		return "Hermes gateway unreachable: the connection could not be made. " + notListening
	}
}

// replyError classifies a reply other than success, and closes it.
func (c *Client) replyError(resp *http.Response) *Error {
	reply := c.readReply(resp)
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header, time.Now()), Sent: true}
	text := c.describe(e, reply)
	e.Text = fmt.Sprintf("Upstream %d: %s", resp.StatusCode, text)
	return e
}

// describe sets the class and returns the cause, by status first (T17).
func (c *Client) describe(e *Error, reply errorReply) string {
	switch status := e.Status; {
	case status == http.StatusUnauthorized:
		e.Class = ClassUnauthorized
		return c.unauthorizedText()
	case status == http.StatusTooManyRequests:
		e.Class = ClassRateLimited
		return "the Hermes gateway is at its limit of concurrent work"
	case status == http.StatusServiceUnavailable:
		e.Class = ClassDraining
		return "the Hermes gateway is draining or overloaded"
	case status == http.StatusRequestEntityTooLarge:
		e.Class = ClassTooLarge
		return "the conversation is larger than the Hermes gateway accepts"
	case status == http.StatusForbidden:
		e.Class = ClassForbidden
		return reply.or(c, "the Hermes gateway or a proxy before it refused access")
	case status == http.StatusNotFound && reply.plain && strings.Contains(strings.ToLower(reply.message), "profile"):
		e.Class = ClassUnknownProfile
		return "the Hermes gateway does not serve this profile"
	case status == http.StatusNotFound:
		e.Class = ClassNotFound
		return reply.or(c, "the Hermes gateway does not know this path; check the gateway address")
	case status >= 500:
		e.Class = ClassServerError
		return reply.or(c, "the Hermes gateway failed inside")
	case status >= 400:
		e.Class = ClassBadRequest
		return reply.or(c, "the Hermes gateway refused the request")
	case status >= 300:
		e.Class = ClassNotAGateway
		return "the gateway address redirects elsewhere; redirects are not followed, set the final address"
	default:
		e.Class = ClassNotAGateway
		return "unexpected success status from the gateway address"
	}
}

func (c *Client) unauthorizedText() string {
	if c.currentKey().Value == "" {
		return "the Hermes gateway demands a key and the edge has none; set api_key, HERMES_WEBUI_GATEWAY_API_KEY or API_SERVER_KEY"
	}
	return "the key between edge and Hermes gateway is wrong; compare api_key (HERMES_WEBUI_GATEWAY_API_KEY, API_SERVER_KEY) with the gateway's API_SERVER_KEY"
}

// errorReply is what an error body says.
type errorReply struct {
	message string // "" for HTML, noise and empty bodies; not redacted
	plain   bool   // the JSON error is a bare string (family ES)
}

func (r errorReply) or(c *Client, fallback string) string {
	if text := c.Redact(r.message); text != "" {
		return text
	}
	return fallback
}

// readReply reads a bounded part of an error body and closes it.
func (c *Client) readReply(resp *http.Response) errorReply {
	timer := time.AfterFunc(errorBodyTime, func() { resp.Body.Close() })
	defer timer.Stop()
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && len(body) == 0 {
		return errorReply{}
	}
	return parseErrorReply(body)
}

// parseErrorReply finds the message in any error family; the content type is
// not asked. HTML and anything that is not JSON give no message.
func parseErrorReply(body []byte) errorReply {
	var d decoder
	if reason := member(body, "error"); reason != nil {
		if text, ok := d.text(reason); ok {
			return errorReply{message: text, plain: true}
		}
		if text, ok := d.text(member(reason, "message")); ok {
			return errorReply{message: text}
		}
	}
	for _, key := range []string{"message", "detail"} {
		if text, ok := d.text(member(body, key)); ok {
			return errorReply{message: text}
		}
	}
	return errorReply{}
}

func retryAfter(header http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// checkStream makes sure that a 200 carries an event stream (SSE-08, SSE-09);
// it closes the body of one that does not.
func (c *Client) checkStream(resp *http.Response) *Error {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	encoding := resp.Header.Get("Content-Encoding")
	if err == nil && kind == "text/event-stream" && (encoding == "" || encoding == "identity") {
		return nil
	}
	reply := c.readReply(resp)
	e := &Error{Class: ClassNotAGateway, Status: resp.StatusCode, Sent: true}
	switch {
	case kind == "text/event-stream":
		e.Text = fmt.Sprintf("Upstream %d: something before the Hermes gateway compresses the event stream; switch that off", e.Status)
	case resp.ContentLength == 0:
		e.Text = "Upstream response stream missing"
	default:
		e.Text = fmt.Sprintf("Upstream %d: the gateway address did not return an event stream but %s%s; check the address", e.Status, mediaName(kind), excerpt(c, reply))
	}
	return e
}

func mediaName(kind string) string {
	switch {
	case kind == "":
		return "an unnamed type"
	case kind == "text/html":
		return "a web page (text/html)"
	default:
		return clip(oneLine(kind), 60)
	}
}

func excerpt(c *Client, reply errorReply) string {
	text := c.Redact(reply.message)
	if text == "" {
		return ""
	}
	return " (" + clip(text, 120) + ")"
}

// streamError classifies the end of an event stream that came too early.
func (c *Client) streamError(ctx context.Context, err error) *Error {
	if e := c.endedBy(ctx, err); e != nil {
		e.Sent = true
		return e
	}
	switch {
	case errors.Is(err, ErrLineTooLong):
		return &Error{Class: ClassLineTooLong, Text: fmt.Sprintf("The Hermes gateway sent a line of more than %d bytes, which is the limit", c.cfg.MaxLine), Sent: true, cause: err}
	case errors.Is(err, io.EOF):
		return &Error{Class: ClassLost, Text: lostText, Sent: true, cause: err}
	default:
		return &Error{Class: ClassLost, Text: lostText + ": the connection broke", Sent: true, cause: err}
	}
}

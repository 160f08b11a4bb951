package engineio

import (
	"net/http"
	"strconv"
)

// httpError is an answer of the protocol's error table: {code, message}.
type httpError struct {
	status  int
	code    int
	message string
}

var (
	errUnknownTransport = &httpError{http.StatusBadRequest, 0, "Transport unknown"}
	errUnknownSID       = &httpError{http.StatusBadRequest, 1, "Session ID unknown"}
	errBadMethod        = &httpError{http.StatusBadRequest, 2, "Bad handshake method"}
	errBadRequest       = &httpError{http.StatusBadRequest, 3, "Bad request"}
	errForbidden        = &httpError{http.StatusForbidden, 4, "Forbidden"}
	errVersion          = &httpError{http.StatusBadRequest, 5, "Unsupported protocol version"}

	errTooLarge       = &httpError{http.StatusRequestEntityTooLarge, 3, "Payload too large"}
	errUpgradeVersion = &httpError{http.StatusUpgradeRequired, 3, "WebSocket version 13 required"}
	errExtended       = &httpError{http.StatusNotImplemented, 3, "WebSocket over HTTP/2 and HTTP/3 is not supported"}
	errBusy           = &httpError{http.StatusServiceUnavailable, 3, "Server unavailable"}
)

func (e *httpError) write(w http.ResponseWriter) {
	body := `{"code":` + strconv.Itoa(e.code) + `,"message":` + strconv.Quote(e.message) + `}`
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	switch e {
	case errBusy:
		h.Set("Retry-After", "1")
	case errUpgradeVersion:
		h.Set("Sec-WebSocket-Version", "13")
	}
	w.WriteHeader(e.status)
	_, _ = w.Write([]byte(body)) // nothing to do for a client that is gone
}

package httpapi

import "net/http"

// redirectToPage sends the browser to the address under which the page's relative
// links work. The address is relative itself: the prefix of the mount is unknown.
func redirectToPage(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeError(w, errMethod("GET, HEAD"))
		return
	}
	w.Header().Set("Location", "chat-run/")
	w.WriteHeader(http.StatusPermanentRedirect)
}

// servePage serves the page or one of its assets. Its refusals become JSON, since
// whoever asks for an unknown path below /chat-run/ is mostly a program.
func (a *api) servePage(w http.ResponseWriter, r *http.Request) {
	pw := &pageWriter{ResponseWriter: w}
	http.StripPrefix(prefix, a.cfg.Page).ServeHTTP(pw, r)
	if pw.refused == 0 {
		return
	}
	w.Header().Del("Content-Length")
	setHeaders(w.Header())
	if pw.refused == http.StatusMethodNotAllowed {
		writeError(w, errMethod(w.Header().Get("Allow")))
		return
	}
	writeError(w, errNoRoute)
}

// pageWriter holds back the page's 404 and 405.
type pageWriter struct {
	http.ResponseWriter
	refused int
}

// WriteHeader implements http.ResponseWriter.
func (w *pageWriter) WriteHeader(status int) {
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed {
		w.refused = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *pageWriter) Write(b []byte) (int, error) {
	if w.refused != 0 {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *pageWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

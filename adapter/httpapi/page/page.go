// Package page holds the built-in chat page: static files without a build step, served with headers
// that allow no inline code and no foreign resource. Every address in the files is relative, so the page
// works under any prefix.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed static/*.html static/*.js static/*.css static/*.svg
var files embed.FS

const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// The host's MIME table can be wrong for scripts, and with nosniff a browser would then refuse them.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
}

type asset struct {
	content     []byte
	contentType string
	etag        string
}

// Handler serves the page. The request path is what follows the mount, with or without a leading slash:
// empty for the page itself, else the name of an asset. It is safe for concurrent use.
func Handler() http.Handler {
	assets := load()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", contentSecurityPolicy)
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		name := strings.TrimPrefix(r.URL.Path, "/")
		if name == "" {
			name = "index.html"
		}
		found, ok := assets[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		serve(w, r, found)
	})
}

func serve(w http.ResponseWriter, r *http.Request, found asset) {
	header := w.Header()
	header.Set("Content-Type", found.contentType)
	if strings.HasPrefix(found.contentType, "text/html") {
		header.Set("Cache-Control", "no-store")
	} else {
		header.Set("Cache-Control", "no-cache")
		header.Set("ETag", found.etag)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(found.content))
}

// load reads the embedded files. They are part of the program, so a failure is a broken build.
func load() map[string]asset {
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		panic(fmt.Sprintf("page: embedded files: %v", err))
	}
	assets := make(map[string]asset, len(entries))
	for _, entry := range entries {
		content, err := files.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(fmt.Sprintf("page: embedded file %s: %v", entry.Name(), err))
		}
		sum := sha256.Sum256(content)
		assets[entry.Name()] = asset{
			content:     content,
			contentType: contentTypes[path.Ext(entry.Name())],
			etag:        `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		}
	}
	return assets
}

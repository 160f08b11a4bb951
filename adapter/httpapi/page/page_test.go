package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, target string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequest(method, "/", nil)
	request.URL.Path = target
	for name, values := range header {
		request.Header[name] = values
	}
	recorder := httptest.NewRecorder()
	Handler().ServeHTTP(recorder, request)
	return recorder
}

func assetNames(t *testing.T) []string {
	t.Helper()
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := files.ReadFile("static/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryAssetIsServedWithSecurityHeaders(t *testing.T) {
	types := map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}
	for _, name := range assetNames(t) {
		t.Run(name, func(t *testing.T) {
			answer := get(t, http.MethodGet, name, nil)
			if answer.Code != http.StatusOK || answer.Body.String() != read(t, name) {
				t.Fatalf("status %d, %d bytes", answer.Code, answer.Body.Len())
			}
			cache := "no-cache"
			if path.Ext(name) == ".html" {
				cache = "no-store"
			}
			want := map[string]string{
				"Content-Type":           types[path.Ext(name)],
				"Cache-Control":          cache,
				"Referrer-Policy":        "no-referrer",
				"X-Content-Type-Options": "nosniff",
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
					"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			}
			for header, value := range want {
				if got := answer.Header().Get(header); got != value {
					t.Errorf("%s: got %q, want %q", header, got, value)
				}
			}
		})
	}
}

func TestThePageAnswersAtTheMountWithAndWithoutSlash(t *testing.T) {
	for _, target := range []string{"", "/", "index.html", "/index.html"} {
		answer := get(t, http.MethodGet, target, nil)
		if answer.Code != http.StatusOK || answer.Body.String() != read(t, "index.html") {
			t.Errorf("%q: status %d", target, answer.Code)
		}
		if answer.Header().Get("ETag") != "" {
			t.Errorf("%q: a page that is not stored must have no ETag", target)
		}
	}
}

func TestUnknownAssetsAre404(t *testing.T) {
	for _, target := range []string{"none.js", "static/app.js", "../page.go", "package.json", "app.js/"} {
		if answer := get(t, http.MethodGet, target, nil); answer.Code != http.StatusNotFound {
			t.Errorf("%q: status %d", target, answer.Code)
		}
	}
}

func TestAssetsRevalidateByETag(t *testing.T) {
	etag := get(t, http.MethodGet, "app.js", nil).Header().Get("ETag")
	if etag == "" {
		t.Fatal("no ETag")
	}
	answer := get(t, http.MethodGet, "app.js", http.Header{"If-None-Match": {etag}})
	if answer.Code != http.StatusNotModified || answer.Body.Len() != 0 {
		t.Fatalf("status %d, %d bytes", answer.Code, answer.Body.Len())
	}
}

func TestOnlyReadingMethodsAreAllowed(t *testing.T) {
	if answer := get(t, http.MethodHead, "app.js", nil); answer.Code != http.StatusOK || answer.Body.Len() != 0 {
		t.Errorf("HEAD: status %d, %d bytes", answer.Code, answer.Body.Len())
	}
	answer := get(t, http.MethodPost, "", nil)
	if answer.Code != http.StatusMethodNotAllowed || answer.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, Allow %q", answer.Code, answer.Header().Get("Allow"))
	}
}

func TestNoInlineCodeAndNoForeignResource(t *testing.T) {
	html := read(t, "index.html")
	forbidden := map[string]*regexp.Regexp{
		"inline script":    regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]`),
		"script, no src":   regexp.MustCompile(`(?i)<script(?:\s+type="module")?>`),
		"style element":    regexp.MustCompile(`(?i)<style`),
		"style attribute":  regexp.MustCompile(`(?i)\sstyle\s*=`),
		"event attribute":  regexp.MustCompile(`(?i)\son[a-z]+\s*=`),
		"foreign resource": regexp.MustCompile(`(?i)(?:src|href|action)\s*=\s*"(?:[a-z]+:|//|/)`),
	}
	for what, pattern := range forbidden {
		if match := pattern.FindString(html); match != "" {
			t.Errorf("index.html has %s: %q", what, match)
		}
	}
	for _, name := range assetNames(t) {
		content := read(t, name)
		switch path.Ext(name) {
		case ".css":
			if strings.Contains(content, "url(") || strings.Contains(content, "@import") {
				t.Errorf("%s loads something", name)
			}
		case ".js":
			for _, sink := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"} {
				if strings.Contains(content, sink) {
					t.Errorf("%s uses %s", name, sink)
				}
			}
		}
	}
}

func TestEveryReferenceIsToAServedAsset(t *testing.T) {
	reference := regexp.MustCompile(`(?:src|href)="([^"]+)"|from '\./([^']+)'`)
	for _, name := range assetNames(t) {
		for _, match := range reference.FindAllStringSubmatch(read(t, name), -1) {
			target := match[1] + match[2]
			if answer := get(t, http.MethodGet, target, nil); answer.Code != http.StatusOK {
				t.Errorf("%s refers to %s: status %d", name, target, answer.Code)
			}
		}
	}
}

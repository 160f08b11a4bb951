package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func openGenerated(t *testing.T, dir string) *Generated {
	t.Helper()
	g, err := OpenGenerated(dir)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGenerated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "hermes")
	if _, err := ReadAccessToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("ReadAccessToken before the first start: %v", err)
	}
	g := openGenerated(t, dir)
	token := g.Token()
	if !regexp.MustCompile(`^he_[A-Za-z0-9_-]{43}$`).MatchString(token) {
		t.Errorf("token has the wrong form (%d bytes)", len(token))
	}
	p := admitted(t, g, Credentials{Token: token})
	if p.User != Owner || !p.Admin || p.Rule == "" || strings.Contains(p.Rule, token[3:]) {
		t.Errorf("principal %+v", p)
	}
	for _, wrong := range []string{"", token[3:], token + "x", "he_"} {
		refused(t, g, Credentials{Token: wrong}, ErrFailed)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]fs.FileMode{AccessTokenPath(dir): 0o600, dir: 0o700 | fs.ModeDir} {
			if info, err := os.Stat(path); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v, want mode %v", path, info.Mode(), err, want)
			}
		}
	}
	if again := openGenerated(t, dir); again.Token() != token {
		t.Error("the second start made another token")
	}
	if read, err := ReadAccessToken(dir); err != nil || read != token {
		t.Errorf("ReadAccessToken: %v, equal %v", err, read == token)
	}
}

func TestGeneratedRotate(t *testing.T) {
	dir := t.TempDir()
	g := openGenerated(t, dir)
	old := g.Token()
	p := admitted(t, g, Credentials{Token: old})
	if _, ok := Review(g, p); !ok {
		t.Error("the token's own principal is not known")
	}
	// What a rotation that was killed leaves behind does not stop the next one.
	if err := os.WriteFile(AccessTokenPath(dir)+".new", []byte("he_"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := g.Rotate()
	if err != nil || token == old || token != g.Token() {
		t.Fatalf("Rotate: changed %v, %v", token != old, err)
	}
	refused(t, g, Credentials{Token: old}, ErrFailed)
	admitted(t, g, Credentials{Token: token})
	if _, ok := Review(g, p); ok {
		t.Error("a principal of the old token is still known")
	}
	if read, err := ReadAccessToken(dir); err != nil || read != token {
		t.Errorf("file after Rotate: %v, equal %v", err, read == token)
	}
	if runtime.GOOS != "windows" {
		if info, err := os.Stat(AccessTokenPath(dir)); err != nil || info.Mode() != 0o600 {
			t.Errorf("file after Rotate: %v, %v", info.Mode(), err)
		}
	}
}

func TestGeneratedRotateKeepsTokenOnFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	g := openGenerated(t, dir)
	token := g.Token()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Rotate(); err == nil {
		t.Fatal("Rotate without a directory succeeded")
	}
	admitted(t, g, Credentials{Token: token})
}

func TestGeneratedConcurrentUse(t *testing.T) {
	g := openGenerated(t, t.TempDir())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			token, err := g.Rotate()
			if err != nil {
				t.Error(err)
			}
			// Another rotation may have replaced it meanwhile: both answers are right.
			_, err = g.Authenticate(t.Context(), Credentials{Token: token})
			if err != nil && !errors.Is(err, ErrFailed) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	admitted(t, g, Credentials{Token: g.Token()})
}

func TestOpenGeneratedDamagedFiles(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		ok      bool
	}{
		"empty":           {"", true},
		"only a newline":  {"\n", true},
		"short":           {"he_x\n", false},
		"two words":       {"he_0123456789 0123456789", false},
		"written by hand": {"  my-own-token-0123456789 \n", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(AccessTokenPath(dir), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := OpenGenerated(dir)
			if (err == nil) != tt.ok {
				t.Fatalf("OpenGenerated: %v, want ok %v", err, tt.ok)
			}
			if tt.ok && len(g.Token()) < minToken {
				t.Error("no usable token")
			}
			if err != nil && strings.Contains(err.Error(), strings.TrimSpace(tt.content)) {
				t.Errorf("the error quotes the file: %v", err)
			}
		})
	}
}

func TestOpenGeneratedWithoutDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenGenerated(filepath.Join(file, "hermes")); err == nil {
		t.Error("a token was made below a file")
	}
}

// A token that is kept elsewhere: it is replaced from outside only as long as it is
// the one that was looked at.
func TestGeneratedReplace(t *testing.T) {
	first, second, third := NewAccessToken(), NewAccessToken(), NewAccessToken()
	var kept string
	g, err := NewGenerated(first, func(token string) error { kept = token; return nil })
	if err != nil {
		t.Fatal(err)
	}
	p := admitted(t, g, Credentials{Token: first})
	if changed, err := g.Replace(first, first); changed || err != nil {
		t.Errorf("the same: %v, %v", changed, err)
	}
	if changed, err := g.Replace(first, second); !changed || err != nil {
		t.Errorf("another: %v, %v", changed, err)
	}
	if _, ok := g.Review(p); ok {
		t.Error("a principal of the old token is still known")
	}
	if changed, err := g.Replace(first, third); changed || err != nil {
		t.Errorf("what was read before the change counts: %v, %v", changed, err)
	}
	if changed, err := g.Replace(second, "short"); changed || err == nil {
		t.Errorf("no token: %v, %v", changed, err)
	}
	rotated, err := g.Rotate()
	if err != nil || kept != rotated || kept == second {
		t.Errorf("Rotate keeps the new one: %v, %v", kept == rotated, err)
	}
	if _, err := NewGenerated("short", nil); err == nil {
		t.Error("made of no token")
	}
}

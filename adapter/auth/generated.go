package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Owner is the user of the generated access token.
const Owner = "owner"

const (
	accessTokenFile   = "access_token"
	accessTokenPrefix = "he_"
	accessTokenBytes  = 32
)

// Generated admits by the access token that is made when nothing else is
// configured: user Owner, with all rights.
type Generated struct {
	dir string

	mu    sync.RWMutex // guards the fields below; never held across file access
	token string
	rule  string

	rotating sync.Mutex // one Rotate at a time
}

// OpenGenerated loads the access token of a data directory, or makes it. The file
// is readable by its owner only. The caller is the one process that works with the
// data directory.
func OpenGenerated(dataDir string) (*Generated, error) {
	token, err := ReadAccessToken(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		token, err = createAccessToken(dataDir)
	}
	if err != nil {
		return nil, err
	}
	g := &Generated{dir: dataDir}
	g.use(token)
	return g, nil
}

// AccessTokenPath returns the file of the access token.
func AccessTokenPath(dataDir string) string { return filepath.Join(dataDir, accessTokenFile) }

// ReadAccessToken reads the access token of a data directory. The error is
// fs.ErrNotExist if there is none yet.
func ReadAccessToken(dataDir string) (string, error) {
	path := AccessTokenPath(dataDir)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("access token: %s is empty: %w", path, fs.ErrNotExist)
	}
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("access token: %s does not hold a token; delete it to have a new one made", path)
	}
	return token, nil
}

func createAccessToken(dataDir string) (string, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	path, token := AccessTokenPath(dataDir), newAccessToken()
	if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) == "" {
		// The process that made the file died before it wrote to it.
		if err := os.Remove(path); err != nil {
			return "", fmt.Errorf("access token: %w", err)
		}
	}
	err := writeExclusive(path, token)
	if errors.Is(err, fs.ErrExist) {
		return ReadAccessToken(dataDir)
	}
	if err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	return token, nil
}

func newAccessToken() string {
	var secret [accessTokenBytes]byte
	// Never fails: crypto/rand ends the process instead.
	_, _ = rand.Read(secret[:])
	return accessTokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
}

// writeExclusive writes a new file durably; nothing is left of it on failure.
func writeExclusive(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content + "\n")
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// Token returns the access token. It is for the operator's eyes, never for a log.
func (g *Generated) Token() string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.token
}

// Rotate replaces the access token and returns the new one. Principals admitted by
// the old one are refused by Review from then on; the caller closes their
// connections.
func (g *Generated) Rotate() (string, error) {
	g.rotating.Lock()
	defer g.rotating.Unlock()
	path := AccessTokenPath(g.dir)
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("access token: %w", err)
	}
	token := newAccessToken()
	if err := writeExclusive(next, token); err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	g.use(token)
	return token, nil
}

func (g *Generated) use(token string) {
	digest := sha256.Sum256([]byte(token))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token, g.rule = token, fingerprint("generated", string(digest[:]))
}

// Authenticate implements Authenticator.
func (g *Generated) Authenticate(_ context.Context, c Credentials) (*Principal, error) {
	g.mu.RLock()
	token, rule := g.token, g.rule
	g.mu.RUnlock()
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(c.Token))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return nil, ErrFailed
	}
	return generatedPrincipal(rule), nil
}

// Review implements Reviewer.
func (g *Generated) Review(p *Principal) (*Principal, bool) {
	g.mu.RLock()
	rule := g.rule
	g.mu.RUnlock()
	if p.Rule != rule {
		return nil, false
	}
	return generatedPrincipal(rule), true
}

func generatedPrincipal(rule string) *Principal {
	return &Principal{User: Owner, Admin: true, Rule: rule}
}

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
	save func(token string) error // keeps the successor of the token

	mu    sync.RWMutex // guards the fields below; never held across I/O
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
	return NewGenerated(token, func(next string) error { return replaceAccessToken(dataDir, next) })
}

// NewGenerated admits by an access token that is kept elsewhere. save keeps the one
// that replaces it.
func NewGenerated(token string, save func(token string) error) (*Generated, error) {
	if err := checkAccessToken(token); err != nil {
		return nil, err
	}
	g := &Generated{save: save}
	g.use(token)
	return g, nil
}

var errNoAccessToken = errors.New("access token: this is none")

func checkAccessToken(token string) error {
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return errNoAccessToken
	}
	return nil
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
	if checkAccessToken(token) != nil {
		return "", fmt.Errorf("access token: %s does not hold a token; delete it to have a new one made", path)
	}
	return token, nil
}

func createAccessToken(dataDir string) (string, error) {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return "", fmt.Errorf("access token: %w", err)
	}
	path, token := AccessTokenPath(dataDir), NewAccessToken()
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

func NewAccessToken() string {
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
	token := NewAccessToken()
	if err := g.save(token); err != nil {
		return "", fmt.Errorf("replace the access token: %w", err)
	}
	g.use(token)
	return token, nil
}

// Replace takes over a token that somebody else has put in the place of was, and
// reports whether it did: not if this one is not was any more, or they are equal.
func (g *Generated) Replace(was, token string) (changed bool, err error) {
	if err := checkAccessToken(token); err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != was || token == was {
		return false, nil
	}
	g.useLocked(token)
	return true, nil
}

// replaceAccessToken puts another token into the file of a data directory.
func replaceAccessToken(dataDir, token string) error {
	path := AccessTokenPath(dataDir)
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := writeExclusive(next, token); err != nil {
		return err
	}
	return os.Rename(next, path)
}

func (g *Generated) use(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.useLocked(token)
}

func (g *Generated) useLocked(token string) {
	digest := sha256.Sum256([]byte(token))
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

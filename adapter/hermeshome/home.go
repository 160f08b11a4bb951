// Package hermeshome reads a Hermes Agent home directory: where it is, where a
// profile lives in it, and the settings of its .env files. It is the only
// place of the product that does.
package hermeshome

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// DefaultProfile is the profile whose files lie in the home itself.
const DefaultProfile = "default"

const (
	homeVariable  = "HERMES_HOME"
	homeDirectory = ".hermes"
	profilesDir   = "profiles"
	maxProfile    = 64
)

// ErrProfileName is returned for a profile name that must not become a path.
var ErrProfileName = errors.New("invalid profile name")

// Home is a Hermes home directory. The zero value is not usable; call [Locate].
// A Home is immutable and safe for concurrent use.
type Home struct {
	dir string
}

// Environment is where Locate looks. Nil functions stand for the process's own.
type Environment struct {
	Getenv  func(name string) string
	UserDir func() (string, error)
}

func (e Environment) getenv(name string) string {
	if e.Getenv == nil {
		return os.Getenv(name)
	}
	return e.Getenv(name)
}

func (e Environment) userDir() (string, error) {
	if e.UserDir == nil {
		return os.UserHomeDir()
	}
	return e.UserDir()
}

// Locate returns the Hermes home: the option if it is set, else HERMES_HOME,
// else .hermes in the user's home directory. A leading "~" is expanded. The
// directory need not exist.
func Locate(option string, env Environment) (Home, error) {
	for _, dir := range []string{option, env.getenv(homeVariable)} {
		if dir = strings.TrimSpace(dir); dir != "" {
			return fromPath(dir, env)
		}
	}
	user, err := env.userDir()
	if err != nil {
		return Home{}, fmt.Errorf("locate the hermes home (set hermes_home or %s): %w", homeVariable, err)
	}
	return Home{dir: filepath.Join(user, homeDirectory)}, nil
}

func fromPath(dir string, env Environment) (Home, error) {
	if rest, ok := strings.CutPrefix(dir, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		user, err := env.userDir()
		if err != nil {
			return Home{}, fmt.Errorf("expand %q in the hermes home: %w", "~", err)
		}
		dir = filepath.Join(user, rest)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Home{}, fmt.Errorf("resolve the hermes home: %w", err)
	}
	return Home{dir: abs}, nil
}

// Dir returns the absolute path of the home.
func (h Home) Dir() string { return h.dir }

// ValidProfile reports whether name is a profile name: a lower-case letter or
// digit, then up to 63 of those, "_" and "-". Such a name is safe as a path
// element on every system.
func ValidProfile(name string) bool {
	if name == "" || len(name) > maxProfile {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// ProfileDir returns the directory of a profile; "" and "default" are the home
// itself. Anything that is not a [ValidProfile] is ErrProfileName. The
// directory need not exist.
func (h Home) ProfileDir(profile string) (string, error) {
	if profile == "" || profile == DefaultProfile {
		return h.dir, nil
	}
	if !ValidProfile(profile) {
		return "", ErrProfileName
	}
	return filepath.Join(h.dir, profilesDir, profile), nil
}

// openFile opens a file of a profile. Below profiles/ a link that leads out of
// it is refused, so that one profile's name cannot reach foreign files.
func (h Home) openFile(profile, name string) (*os.File, error) {
	dir, err := h.ProfileDir(profile)
	if err != nil {
		return nil, err
	}
	if dir == h.dir {
		return os.Open(filepath.Join(dir, name))
	}
	root, err := os.OpenRoot(filepath.Join(h.dir, profilesDir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(filepath.Join(profile, name))
}

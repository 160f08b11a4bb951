package hermeshome

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocate(t *testing.T) {
	user := t.TempDir()
	env := func(home string) Environment {
		return Environment{
			Getenv: func(name string) string {
				if name == "HERMES_HOME" {
					return home
				}
				return ""
			},
			UserDir: func() (string, error) { return user, nil },
		}
	}
	other := t.TempDir()
	for _, test := range []struct{ name, option, variable, want string }{
		{"option", other, user, other},
		{"variable", "", " " + other + " ", other},
		{"default", "", "", filepath.Join(user, ".hermes")},
		{"tilde", "~/x", "", filepath.Join(user, "x")},
		{"tilde alone", "~", "", user},
	} {
		home, err := Locate(test.option, env(test.variable))
		if err != nil || home.Dir() != test.want {
			t.Errorf("%s: %q, %v", test.name, home.Dir(), err)
		}
	}
	lost := Environment{Getenv: func(string) string { return "" }, UserDir: func() (string, error) { return "", errors.New("no home") }}
	if _, err := Locate("", lost); err == nil || !strings.Contains(err.Error(), "hermes_home") {
		t.Errorf("no home: %v", err)
	}
	if _, err := Locate("~/x", lost); err == nil {
		t.Error("no home to expand, but no error")
	}
}

// AUT-02
func TestProfileNames(t *testing.T) {
	home := Home{dir: t.TempDir()}
	for _, name := range []string{"", "default", "work", "a-b_9", "9", strings.Repeat("a", 64)} {
		if dir, err := home.ProfileDir(name); err != nil || !strings.HasPrefix(dir, home.dir) {
			t.Errorf("%q: %q, %v", name, dir, err)
		}
	}
	for _, name := range []string{"../../etc", "/tmp/x", "..", ".", "a/b", `a\b`, "%2e%2e", "C:", strings.Repeat("a", 300),
		"a\x00", "Work", "-a", "_a", "é", " a", "a.b"} {
		if _, err := home.ProfileDir(name); !errors.Is(err, ErrProfileName) {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := home.GatewayKey(name); !errors.Is(err, ErrProfileName) {
			t.Errorf("key of %q: %v", name, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestGatewayKey(t *testing.T) {
	home := Home{dir: t.TempDir()}
	if key, err := home.GatewayKey("default"); err != nil || key != "" {
		t.Errorf("no file: %q, %v", key, err)
	}
	if key, err := home.GatewayKey("work"); err != nil || key != "" {
		t.Errorf("no profiles: %q, %v", key, err)
	}
	write(t, filepath.Join(home.dir, ".env"), "API_SERVER_KEY=one\n")
	write(t, filepath.Join(home.dir, "profiles", "work", ".env"), "API_SERVER_KEY=two\n")
	for profile, want := range map[string]string{"": "one", "default": "one", "work": "two", "absent": ""} {
		if key, err := home.GatewayKey(profile); err != nil || key != want {
			t.Errorf("%q: %q, %v", profile, key, err)
		}
	}
	write(t, filepath.Join(home.dir, ".env"), "API_SERVER_KEY=changed\n")
	if key, _ := home.GatewayKey(""); key != "changed" {
		t.Errorf("the file was not read again: %q", key)
	}
	write(t, filepath.Join(home.dir, ".env"), strings.Repeat("#", maxDotenv+1))
	if _, err := home.GatewayKey(""); err == nil || strings.Contains(err.Error(), home.dir) {
		t.Errorf("oversize file: %v", err)
	}
}

// AUT-02: a profile directory that is a link to somewhere else is refused.
func TestProfileLinkOutside(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // making links needs rights there; the refusal is os.Root's
	}
	home, outside := Home{dir: t.TempDir()}, t.TempDir()
	write(t, filepath.Join(outside, ".env"), "API_SERVER_KEY=foreign\n")
	if err := os.Mkdir(filepath.Join(home.dir, "profiles"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home.dir, "profiles", "work")); err != nil {
		t.Fatal(err)
	}
	if key, err := home.GatewayKey("work"); err == nil || key != "" {
		t.Errorf("read %q through the link, %v", key, err)
	}
}

func TestLookup(t *testing.T) {
	for text, want := range map[string]string{
		"K=v":                      "v",
		"\ufeffK=v":                "v",
		"K=v\r\nX=y\r\n":           "v",
		" K = v ":                  "v",
		"export K=v":               "v",
		"export\tK=v":              "v",
		"exportK=v":                "",
		"K='a # b' # c":            "a # b",
		`K="a # b" # c`:            "a # b",
		`K="a\"b\\c\n\$\x"`:        "a\"b\\c\n$\\x",
		`K='a\n'`:                  `a\n`,
		"K=v # comment":            "v",
		"K=v#w":                    "v#w",
		"K=# comment":              "",
		"K=":                       "",
		"K=\"unclosed":             "\"unclosed",
		"#K=v":                     "",
		"K":                        "",
		"XK=v\nK2=v":               "",
		"K=a\nK=b":                 "b",
		"K=a=b==":                  "a=b==",
		"K=''":                     "",
		"X=1\nK=sk-1234\nexport Y": "sk-1234",
	} {
		if got := Lookup(text, "K"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("export K=\"a\\\"b\" # c\nK='x'")
	f.Fuzz(func(t *testing.T, text string) {
		if got := Lookup(text, "K"); len(got) > len(text) {
			t.Fatalf("%q gave the longer %q", text, got)
		}
	})
}

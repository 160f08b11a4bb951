// Package importtest keeps the packages of this module apart: what may know what
// is decided here, not by the next import.
package importtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module = "github.com/hermes-edge/hermes-edge"
	caddy  = "github.com/caddyserver/"
)

// allowed says which packages of this module a package may import. A name with
// "/..." stands for everything at and below it; the first rule that fits counts.
// Packages below one folder of a rule with "/..." may import each other.
var allowed = []struct {
	pkg     string
	imports []string
}{
	{"caddymodule/...", []string{
		"adapter/edge", "adapter/httpapi/...", "adapter/auth", "adapter/socketio", "adapter/metrics", "bridgeproc",
		// edge.Settings is made of gateway.Config, whose key is looked for in the home,
		// and of redisstore.Options.
		"adapter/gateway", "adapter/hermeshome", "adapter/store/redisstore",
	}},
	{"adapter/edge", []string{"adapter/..."}},
	// The engine's executor contract is made of data types of chatrun and store.
	{"adapter/executor/...", []string{"adapter/engine", "adapter/chatrun", "adapter/store", "adapter/gateway", "bridgeproc"}},
	{"adapter/engine", []string{"adapter/chatrun", "adapter/store", "adapter/auth"}},
	{"adapter/httpapi/page", nil},
	{"adapter/httpapi", []string{"adapter/engine", "adapter/auth", "adapter/chatrun"}},
	{"adapter/metrics", []string{"adapter/engine", "adapter/gateway"}},
	{"adapter/socketio/...", nil},
	{"adapter/peer", nil},
	{"adapter/store", nil},
	{"adapter/store/...", nil},
	{"adapter/gateway", []string{"adapter/hermeshome"}},
	{"adapter/auth", []string{"adapter/hermeshome"}},
	{"adapter/chatrun", nil},
	{"adapter/hermeshome", nil},
	{"bridgeproc/...", nil},
	{"internal/...", nil},
	{"testing/...", []string{"adapter/...", "caddymodule/..."}},
}

func fits(pattern, pkg string) bool {
	prefix, tree := strings.CutSuffix(pattern, "/...")
	return pkg == prefix || tree && strings.HasPrefix(pkg, prefix+"/")
}

// imported is one import of one file.
type imported struct {
	file string // relative to the module
	pkg  string // of the file, relative to the module
	test bool
	path string
}

func TestImports(t *testing.T) {
	all := readImports(t)
	if len(all) < 50 {
		t.Fatalf("only %d imports found: the walk is broken", len(all))
	}
	for _, one := range all {
		if problem := check(one); problem != "" {
			t.Errorf("%s imports %s: %s", one.file, one.path, problem)
		}
	}
}

func TestCheckFindsViolations(t *testing.T) {
	for _, one := range []imported{
		{pkg: "adapter/engine", path: module + "/adapter/edge"},
		{pkg: "adapter/engine", path: module + "/adapter/gateway"},
		{pkg: "adapter/store/embedded", path: module + "/adapter/engine"},
		{pkg: "adapter/chatrun", path: module + "/adapter/store"},
		{pkg: "adapter/edge", path: caddy + "caddy/v2"},
		{pkg: "adapter/socketio", path: caddy + "caddy/v2", test: true},
		{pkg: "adapter/edge", path: module + "/caddymodule"},
		{pkg: "caddymodule", path: module + "/adapter/engine"},
		{pkg: "adapter/engine", path: module + "/testing/fakegateway"},
		{pkg: "adapter/novel", path: module + "/adapter/store"},
	} {
		if check(one) == "" {
			t.Errorf("%s may import %s", one.pkg, one.path)
		}
	}
	for _, one := range []imported{
		{pkg: "adapter/store/embedded", path: module + "/adapter/store"},
		{pkg: "caddymodule/hermes-edge", path: module + "/caddymodule"},
		{pkg: "adapter/engine", path: module + "/testing/fakegateway", test: true},
	} {
		if problem := check(one); problem != "" {
			t.Errorf("%s: %s", one.pkg, problem)
		}
	}
}

// check returns what is wrong with an import, or nothing. Tests may import what
// they like of this module, but Caddy stays where it is, tests or not.
func check(one imported) string {
	if strings.HasPrefix(one.path, caddy) {
		for _, free := range []string{"adapter/...", "bridgeproc/..."} {
			if fits(free, one.pkg) {
				return "only caddymodule knows Caddy"
			}
		}
	}
	target, ours := strings.CutPrefix(one.path, module+"/")
	if !ours || one.test {
		return ""
	}
	i := slices.IndexFunc(allowed, func(rule struct {
		pkg     string
		imports []string
	}) bool {
		return fits(rule.pkg, one.pkg)
	})
	if i < 0 {
		return "the package has no rule yet: decide what it may know"
	}
	rule := allowed[i]
	if strings.HasSuffix(rule.pkg, "/...") && fits(rule.pkg, target) {
		return ""
	}
	if !slices.ContainsFunc(rule.imports, func(pattern string) bool { return fits(pattern, target) }) {
		return "not among what " + rule.pkg + " may know"
	}
	return ""
}

func readImports(t *testing.T) []imported {
	root := moduleRoot(t)
	var all []imported
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		for _, spec := range parsed.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			all = append(all, imported{
				file: relative, pkg: path.Dir(relative), test: strings.HasSuffix(name, "_test.go"), path: target,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func moduleRoot(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

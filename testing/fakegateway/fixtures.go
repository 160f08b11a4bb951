package fakegateway

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed fixtures/*.sse
var fixtureFiles embed.FS

// Fixture returns a recorded stream body by its name without ".sse".
func Fixture(name string) ([]byte, error) {
	body, err := fixtureFiles.ReadFile(path.Join("fixtures", path.Base(name)+".sse"))
	if err != nil {
		return nil, fmt.Errorf("no fixture %q, there are: %s", name, strings.Join(Fixtures(), ", "))
	}
	return body, nil
}

// Fixtures returns the names of all recorded streams, sorted.
func Fixtures() []string {
	entries, err := fixtureFiles.ReadDir("fixtures")
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".sse"))
	}
	return names
}

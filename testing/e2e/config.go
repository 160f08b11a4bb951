package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// User may sign in with a token.
type User struct {
	Name     string
	Token    string
	Profiles []string // default if empty
	Admin    bool
}

// Upstream is the gateway of one profile.
type Upstream struct {
	URL   string
	Key   string
	Store bool // it keeps responses, and is asked to
	// MaxRuns are the turns that it is given at a time; 0: no limit.
	MaxRuns int
}

// Config says how an edge is set up.
type Config struct {
	// Gateways by profile.
	Gateways map[string]Upstream
	Users    []User
	// Options are further lines of the hermes block, for instance "limits {",
	// "message_size 100KB", "}".
	Options []string
	// Site are lines of the site, before hermes_edge.
	Site []string
}

// caddyfile writes the configuration of one site. Values are quoted, so that no
// token or path can become a word of its own.
func (c Config) caddyfile(port int, dataDir string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("{")
	line("admin off")
	line("persist_config off")
	line("grace_period 10s")
	line("hermes {")
	line("data_dir %s", strconv.Quote(dataDir))
	for _, profile := range slices.Sorted(maps.Keys(c.Gateways)) {
		line("gateway %s %s {", profile, strconv.Quote(c.Gateways[profile].URL))
		if key := c.Gateways[profile].Key; key != "" {
			line("api_key %s", strconv.Quote(key))
		}
		line("max_runs %d", c.Gateways[profile].MaxRuns) // tests hold as many as they like
		if c.Gateways[profile].Store {
			line("store on")
		}
		line("}")
	}
	for _, option := range c.Options {
		line("%s", option)
	}
	line("}")
	line("}")
	line("http://127.0.0.1:%d {", port)
	line("bind 127.0.0.1")
	for _, directive := range c.Site {
		line("%s", directive)
	}
	line("hermes_edge {")
	line("auth {")
	for _, user := range c.Users {
		line("token %s %s {", user.Name, strconv.Quote(user.Token))
		line("profiles %s", strings.Join(orDefault(user.Profiles), " "))
		if user.Admin {
			line("admin")
		}
		line("}")
	}
	line("}")
	line("}")
	line("}")
	return b.String()
}

func orDefault(profiles []string) []string {
	if len(profiles) == 0 {
		return []string{"default"}
	}
	return profiles
}

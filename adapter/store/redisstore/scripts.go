package redisstore

import (
	"embed"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/hermes-edge/hermes-edge/adapter/store"
)

//go:embed scripts
var sources embed.FS

// layoutVersion is the version of the root and its companions. A root with a
// higher one is refused with store.ErrTooNew.
const layoutVersion = 1

// script is one composed Lua script and the names of the keys it touches, in the
// order of its KEYS. Keys "*" stand for any number of keys of the caller's.
type script struct {
	name string
	keys []string
	*redis.Script
}

// load composes all scripts. Limits are constants of them.
func load(o *Options) (map[string]*script, error) {
	files, err := sources.ReadDir("scripts")
	if err != nil {
		return nil, fmt.Errorf("read scripts: %w", err)
	}
	all := make(map[string]*script)
	for _, f := range files {
		if f.IsDir() {
			continue
		}
		s, err := compose(strings.TrimSuffix(f.Name(), ".lua"), o)
		if err != nil {
			return nil, err
		}
		all[s.name] = s
	}
	return all, nil
}

func compose(name string, o *Options) (*script, error) {
	body, err := sources.ReadFile(path.Join("scripts", name+".lua"))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	keys, includes := directive(string(body), "keys"), directive(string(body), "include")
	var b strings.Builder
	b.WriteString(constants(o))
	b.WriteString("local key = {")
	for i, k := range keys {
		if k != "*" {
			fmt.Fprintf(&b, "%s = KEYS[%d], ", k, i+1)
		}
	}
	b.WriteString("}\n")
	for _, lib := range append([]string{"base"}, includes...) {
		text, err := sources.ReadFile(path.Join("scripts/lib", lib+".lua"))
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		b.WriteString(bare(string(text)))
	}
	b.WriteString(bare(string(body)))
	return &script{name: name, keys: keys, Script: redis.NewScript(b.String())}, nil
}

// directive returns the words of a line of the header, e.g. "-- keys: h t".
func directive(body, name string) []string {
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, "-- "+name+":"); ok {
			return strings.Fields(rest)
		}
	}
	return nil
}

// bare leaves out comments that fill a line: the text goes to the server.
func bare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// constants writes the limits as a Lua table.
func constants(o *Options) string {
	l := o.Limits
	c := map[string]int64{
		"version": layoutVersion, "attempts": maxAttempts,
		"items": int64(l.QueueItems), "queueBytes": int64(l.QueueBytes), "itemBytes": int64(l.ItemBytes),
		"ledger": int64(l.LedgerEntries), "keep": int64(l.LogKeep), "keepBytes": int64(l.LogKeepBytes),
		"retention": o.Retention.Milliseconds(), "margin": expiryMargin.Milliseconds(),
		"log": store.IdleLogTTL.Milliseconds(), "tombstone": store.TombstoneTTL.Milliseconds(),
		"purged": purgedLog.Milliseconds(), "chunk": readChunk, "readBytes": readBytes,
	}
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString("local limits = {")
	for _, name := range names {
		fmt.Fprintf(&b, "%s = %d, ", name, c[name])
	}
	b.WriteString("}\n")
	return b.String()
}

package redisstore

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
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
	lane string // with whose calls it shares pipelines
	*redis.Script
}

// laneNone is the lane of scripts whose answers may be long: nobody waits behind
// them.
const laneNone = "none"

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
	names := constants(o)
	for _, k := range allKeys { // one that a script does not have stands in a library function that it does not use
		names["key."+k] = "nil"
	}
	for i, k := range keys {
		names["key."+k] = fmt.Sprintf("KEYS[%d]", i+1)
	}
	var b strings.Builder
	b.WriteString("local wanted = " + luaList(directive(string(body), "root")) + "\n")
	for _, lib := range append([]string{"base"}, includes...) {
		text, err := sources.ReadFile(path.Join("scripts/lib", lib+".lua"))
		if err != nil {
			return nil, fmt.Errorf("script %s: %w", name, err)
		}
		b.WriteString(bare(string(text)))
	}
	b.WriteString(bare(string(body)))
	return &script{name: name, keys: keys, lane: strings.Join(directive(string(body), "lane"), ""), Script: redis.NewScript(replacer(names).Replace(b.String()))}, nil
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

// luaList writes words as a Lua list, nil if there are none.
func luaList(words []string) string {
	if len(words) == 0 {
		return "nil"
	}
	return "{'" + strings.Join(words, "', '") + "'}"
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

// allKeys are the names of keys in scripts (contract section 2).
var allKeys = []string{"h", "t", "e", "q", "i", "d", "dx", "k", "l", "n", "a", "z", "w", "u", "c", "g", "gw", "p"}

// replacer puts values in the place of names: a table of them would be built by
// each call anew. Of two names that begin alike the longer one goes first.
func replacer(names map[string]string) *strings.Replacer {
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(names))
	for _, name := range sorted {
		pairs = append(pairs, name, names[name])
	}
	return strings.NewReplacer(pairs...)
}

// constants are the limits by their names in scripts.
func constants(o *Options) map[string]string {
	l := o.Limits
	names := make(map[string]string)
	for name, n := range map[string]int64{
		"version": layoutVersion, "attempts": maxAttempts,
		"items": int64(l.QueueItems), "queueBytes": int64(l.QueueBytes), "itemBytes": int64(l.ItemBytes),
		"ledger": int64(l.LedgerEntries), "keep": int64(l.LogKeep), "keepBytes": int64(l.LogKeepBytes),
		"retention": o.Retention.Milliseconds(), "margin": expiryMargin.Milliseconds(),
		"log": store.IdleLogTTL.Milliseconds(), "tombstone": store.TombstoneTTL.Milliseconds(),
		"purged": purgedLog.Milliseconds(), "chunk": readChunk, "readBytes": readBytes,
	} {
		names["limits."+name] = strconv.FormatInt(n, 10)
	}
	names["limits.publish"] = "'PUBLISH'"
	if o.Mode == Cluster {
		names["limits.publish"] = "'SPUBLISH'"
	}
	return names
}
